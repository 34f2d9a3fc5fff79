// Every text whose contrast is below that of WCAG 2.1, AA, with the element that holds it.
() => {
  const parts = colour => {
    const numbers = colour.match(/[\d.]+/g).map(Number);
    return numbers.length < 4 ? [...numbers, 1] : numbers;
  };
  const over = (ground, colour) => ground.map((value, i) => colour[3] * colour[i] + (1 - colour[3]) * value);
  const luminance = colour => {
    const [r, g, b] = colour.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = element => {
    const layers = [];
    for (; element; element = element.parentElement) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      if (colour[3]) layers.unshift(colour);
      if (colour[3] === 1) break;
    }
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    return layers.reduce(over, dark ? [18, 18, 18] : [255, 255, 255]);
  };
  const found = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    if (!text || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const style = getComputedStyle(element), behind = ground(element);
    const [a, b] = [over(behind, parts(style.color)), behind].map(luminance).sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (a + .05) / (b + .05);
    if (contrast < (large ? 3 : 4.5)) {
      found.set(`${element.tagName}.${element.className}`, `${text.slice(0, 40)} (${contrast.toFixed(2)})`);
    }
  }
  return [...found].map(each => each.join(': '));
}
