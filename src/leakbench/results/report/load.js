// Unpacks the page's script and adds it to the page, whose policy names the digests of both.
const packed = Uint8Array.from(atob(document.getElementById("code").textContent), (letter) => letter.charCodeAt(0));
const whole = document.createElement("script");
whole.type = "module";
whole.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
document.body.append(whole);
