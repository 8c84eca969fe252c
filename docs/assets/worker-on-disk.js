// Pages that are opened from a disk may start no worker, which the search of the theme is. There, and only there, a
// frame does its work: it loads the same script, and messages go to and fro between the two windows.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.src = "about:blank";
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const script = frame.contentDocument.createElement("script");
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      script.src = address;
      script.onload = () => { this.ready = true; this.waiting.splice(0).forEach((data) => this.postMessage(data)); };
      frame.contentDocument.body.append(script);
    }
    postMessage(data) {
      if (this.ready) this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
