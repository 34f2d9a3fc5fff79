// Everything that is wrong with a page as it is shown now, one sentence each; on paper, too, what is cut off.
paper => {
  const found = new Map(), named = element => `${element.tagName}.${element.className}`;
  const fault = (kind, element, text) => found.set(kind + named(element), `${kind}: ${named(element)}: ${text}`);
  const parts = colour => {
    const numbers = colour.match(/[\d.]+/g).map(Number);
    return numbers.length < 4 ? [...numbers, 1] : numbers;
  };
  const over = (ground, colour) => ground.map((value, i) => colour[3] * colour[i] + (1 - colour[3]) * value);
  const luminance = colour => {
    const [r, g, b] = colour.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const dark = !paper && matchMedia('(prefers-color-scheme: dark)').matches;
  const ground = element => {
    const layers = [];
    for (; element; element = element.parentElement) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      if (colour[3] && !paper) layers.unshift(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduce(over, dark ? [18, 18, 18] : [255, 255, 255]);
  };
  // The part of a text's box that its element and all around it let be seen.
  const clips = new Map();
  const clip = element => {
    if (!element) return [0, -Infinity, Infinity, Infinity];
    if (!clips.has(element)) {
      let [left, top, right, bottom] = clip(element.parentElement);
      if (getComputedStyle(element).overflow !== 'visible') {
        const box = element.getBoundingClientRect();
        [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
        [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
      }
      clips.set(element, [left, top, right, bottom]);
    }
    return clips.get(element);
  };
  const boxes = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode, text = node.data.trim(), element = node.parentElement;
    if (!text || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const style = getComputedStyle(element), behind = ground(element);
    const [a, b] = [over(behind, parts(style.color)), behind].map(luminance).sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (a + .05) / (b + .05);
    if (contrast < (large ? 3 : 4.5)) fault('pale text', element, `${text.slice(0, 40)} (${contrast.toFixed(2)})`);
    const [left, top, right, bottom] = clip(element), range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      // Lines may be closer than their boxes are high.
      const own = [Math.max(left, box.left), Math.max(top, box.top + box.height / 4),
        Math.min(right, box.right), Math.min(bottom, box.bottom - box.height / 4)];
      if (own[2] - own[0] > 2 && own[3] - own[1] > 2) boxes.push([own, node, element]);
    }
  }
  boxes.sort((one, other) => one[0][1] - other[0][1]);
  let open = [];
  for (const next of boxes) {
    const [box, node, element] = next;
    open = open.filter(([before]) => before[3] > box[1]);
    for (const [before, other] of open) {
      const wide = Math.min(box[2], before[2]) - Math.max(box[0], before[0]);
      if (other !== node && wide > 2 && Math.min(box[3], before[3]) - box[1] > 2) {
        fault('text over text', element, `${node.data.trim().slice(0, 40)} on ${other.data.trim().slice(0, 40)}`);
      }
    }
    open.push(next);
  }
  const all = document.documentElement, wide = all.scrollWidth - all.clientWidth;
  if (wide > 0) fault('too wide', all, `the document is ${wide} pixels wider than its window`);
  for (const image of document.images) {
    const lazy = image.loading === 'lazy' && !image.complete;
    if (!lazy && (!image.complete || !image.naturalWidth)) fault('picture not drawn', image, image.alt);
  }
  if (paper) {
    for (const element of document.querySelectorAll('body :not(img)')) {
      const cut = element.clientWidth ? element.scrollWidth - element.clientWidth : 0;
      const style = getComputedStyle(element), [, , , shade] = parts(style.backgroundColor);
      const size = !element.innerText && element.clientHeight > 2 && element.clientWidth > 2;
      if (size && shade && style.printColorAdjust !== 'exact' && element.checkVisibility()) {
        fault('not printed', element, element.outerHTML.slice(0, 60));
      }
      const said = element.matches('td, tbody th') && element.checkVisibility() ? element.innerText.trim() : '';
      if (said.split(/\s+/).length > 12 && element.clientWidth < 8.5 * parseFloat(style.fontSize)) {
        fault('narrow column', element, said.slice(0, 40));
      }
      if (cut > 1 && getComputedStyle(element).overflowX !== 'visible' && element.checkVisibility()) {
        fault('cut off', element, `${cut} pixels of ${element.innerText.trim().slice(0, 40)}`);
      }
    }
  }
  return [...found.values()];
}
