// The search runs in a Worker, and browsers start none from a file. A page that is opened from the disk therefore runs
// it in a hidden frame. The offline plugin would load such a replacement from another host; it does not where one is
// named with "iframe-worker" in mkdocs.yml.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
      inside.document.head.append(script);
    }

    // What comes before the script is loaded waits. The copy keeps each side's objects to itself, as a Worker does.
    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
      } else {
        const message = new MessageEvent("message", { data: structuredClone(data) });
        setTimeout(() => this.frame.contentWindow.dispatchEvent(message));
      }
    }

    terminate() {
      this.frame.remove();
    }
  };
}
