// A browser starts no worker from a disk. There the worker of the search runs in a hidden frame.
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement('iframe');
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => setTimeout(() => this.dispatchEvent(new MessageEvent('message', {data})));
      const script = inside.document.createElement('script');
      script.src = new URL(url, location.href);
      this.ready = new Promise(resolve => { script.onload = () => resolve(inside); });
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new inside.MessageEvent('message', {data})));
    }
    terminate() {}
  };
}
