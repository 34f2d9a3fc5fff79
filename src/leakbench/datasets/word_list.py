"""Some fifteen hundred common English words, put together for this project: what the stand-ins for rendered
word sets say."""

_TEXT = """
the and for are but not you all any can her was one our out day get has him his how man new now old see two
way who boy did its let put say she too use air arm art bad bag bar bed big box bus buy car cat cow cup cut
dog dry ear eat egg end eye far fat fit fly fox fun gas gun hat hit hot ice ink job key kid law leg lie lip
lot low map mix mud net nut oil own pan pay pen pet pie pig pin pop pot red rid row run sad sea sea set sit
six sky son sun tax tea ten tie tip toe top toy try van war wax web wet win wind wine wing wire wise wish wolf
wood wool word work year yard zone zoo able acid aged also area army away baby back ball band bank base bath
bean bear beat beef been beer bell belt best bill bird blow blue boat body bomb bond bone book boom born boss
both bowl burn bush busy cafe cage cake call calm came camp card care case cash cast cell chat chip city clay
clip club coal coat code cold come cook cool cope copy core corn cost crew crop dark data date dawn days dead
deal dear debt deep desk dial diet dirt disc dish dock does done door dose down draw drop drum duck dust duty
each earn east easy edge else exit face fact fail fair fall farm fast fate fear feed feel feet fell file fill
film find fine fire firm fish five flag flat flow food foot ford form fort four free from fuel full fund gain
game gate gave gear gift girl give glad goal goat gold golf good grew grey grow gulf hair half hall hand hang
hard harm hate have head hear heat held help here hero hide high hill hire hold hole holy home hope horn host
hotel hour huge hunt hurt idea inch into iron item jack jazz join jump jury just keen keep kick kind king kiss
knee knew know lack lady laid lake lamp land lane last late lead leaf left lend less life lift like limb line
link lion list live load loan lock logo long look lord lose loss lost loud love luck lung made mail main make
male mall many mark mask mass mate meal mean meat meet menu mere mile milk mill mind mine miss mode mood moon
more most move much must name navy near neck need news next nice nine none nose note obey once only onto open
oral oven over pace pack page paid pain pair palm park part pass past path peak pick pile pink pipe plan play
plot plug plus poem poet pole poll pool poor port post pour pray pull pump pure push quit race rail rain rank
rare rate read real rear rely rent rest rice rich ride ring rise risk road rock role roll roof room root rope
rose rule rush safe sail sale salt same sand save seal seat seed seek self sell send ship shop shot show shut
sick side sign silk sing sink site size skin slip slow snow soap sock soft soil sold sole some song soon sort
soul soup spin spot star stay stem step stir stop such suit sure swim tail take tale talk tall tank tape task
taxi team tear tell tend tent term test text than that them then they thin this tide till time tiny tire toll
tone tool tour town tram tree trip true tube tune turn twin type unit upon urge used user vary vast very view
vote wage wait wake walk wall want ward warm wash wave weak wear week well went were west what when wide wife
wild will abbey about above abuse actor adult after again agent agree ahead alarm album alert alike alive
allow alone along alter amber among angel anger angle angry apart apple apply april arena argue arise armed
array aside asset audio avoid award aware bacon badge basic basin basis beach beard beast began begin being
below bench berry bible birth black blade blame blank blast blend blind block blood board boost booth bound
brain brand brass brave bread break brick bride brief bring broad broke brown brush build built bunch burst
cabin cable canal candy cargo carry catch cause chain chair chalk charm chart chase cheap check cheek cheer
chess chest chief child china choir chose civic civil claim class clean clear clerk click cliff climb clock
close cloth cloud coach coast cocoa coffee coral couch could count court cover crack craft crane crash cream
crime cross crowd crown crude curve cycle daily dairy dance dealt death debut delay depth diary dirty doubt
dozen draft drain drama dream dress dried drink drive eager early earth eight elbow elder elect empty enemy
enjoy enter entry equal error essay event every exact exist extra faith false fancy fault favor fence fever
fiber field fifth fifty fight final first fixed flame flash fleet flesh float flood floor flour fluid focus
force forth forty forum found frame fresh front frost fruit fully funny ghost giant given glass globe glory
glove grace grade grain grand grant grape graph grass grave great green greet grill gross group guard guess
guest guide guilt habit happy harsh heart heavy hello hence honey honor horse house human humor ideal image
index inner input issue ivory japan jewel joint judge juice knife knock known label labor large laser later
laugh layer learn lease least leave legal lemon level light limit linen liver local lodge logic loose lover
lower loyal lucky lunch magic major maker maple march marry match maybe mayor medal media mercy merit metal
meter metro might minor model money month moral motor mount mouse mouth movie museum music naked nerve never
night ninth noble noise north novel nurse ocean offer often olive onion opera orange orbit order organ other
ought outer owner paint panel panic paper party pasta patch pause peace pearl penny phase phone photo piano
piece pilot pizza place plain plane plant plate plaza point porch pound power press price pride prime print
prior prize proof proud prove queen quick quiet quite quote radio raise ranch range rapid ratio reach react
ready realm refer relax reply rider ridge rifle right rival river robin robot rocky roman rough round route
royal rural salad sauce scale scene scope score sense serve seven shade shake shall shape share sharp sheep
sheet shelf shell shift shine shirt shock shoot shore short shout sight silly since sixth sixty skill skirt
sleep slice slide slope small smart smile smoke snake solar solid solve sorry sound south space spare speak
speed spell spend spice spite split spoke sport staff stage stair stake stamp stand stare start state steak
steal steam steel stick still stock stone stood store storm story stove strap straw strip study stuff style
sugar sunny super sweet swift swing sword table taste teach teeth thank theme there thick thief thing think
third those three throw thumb tiger tight tired title toast today token topic total touch tough tower track
trade trail train treat trend trial tribe trick truck truly trunk trust truth twice uncle under union unity
until upper upset urban usual valid value vapor video villa virus visit vital vivid vocal voice waste watch
water wheel where which while white whole whose widow width woman world worry worth would wound wrist write
wrong yacht yield young youth academy account address advance airport amazing antique archive article balance
bakery banking barrier battery bedroom benefit between bicycle birthday boulevard bridge british brother
builder burger business cabinet capital captain careful carpet castle catalog ceiling central century channel
chapter charity chicken children chimney chocolate church cinema circle citizen classic climate clothes
college comfort company concert content control cookies corner cottage council country courage cousin crystal
culture current customer dancing danger dentist desert design diamond digital dinner discount display doctor
dollar driver durable eastern economy edition education election electric elegant emergency engine english
entrance evening example exchange express factory family famous farmer fashion festival finance fitness
flowers football foreign forest fortune fountain freedom friends furniture gallery garage garden gateway
general gentle glasses golden grammar grocery harbour harvest health heritage highway history holiday hospital
housing husband imperial include industry insurance interior island italian jacket january journal journey
justice kingdom kitchen language laundry leather lecture lesson liberty library license limited liquid listen
luxury machine magazine manager market masters meadow medical meeting memorial memory message midnight million
minister mirror mission mobile modern monday morning mother mountain national natural network northern notice
number october office official operation original outside painting palace parking partner passage passenger
patient people perfect pharmacy picture platform pleasure pocket police popular postage present private
product program project property public purple quality quarter question railway reading receipt record reduced
regular religion repair republic request reserve restaurant returns review sandwich saturday school science
season second secret security senior service sessions seventy shadow shipping shopping shoulder silver simple
sister society soldier special square stadium standard station statue stranger street strong student studio
summer sunday supply support surface surgery survey swimming symbol system teacher technology telephone temple
terrace theatre thousand thunder ticket toilet tomorrow tourist towards traffic training transport travel
treasure triangle tuesday tunnel twenty university vacation valley variety vehicle vendor victory village
vintage vision visitor warning warranty weather website wedding weekend welcome western whisper window winter
without wonder workshop yellow yesterday
"""
WORDS = tuple(dict.fromkeys(_TEXT.split()))
