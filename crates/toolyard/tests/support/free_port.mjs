// Makes any Node.js server listen on a free port of the loopback interface and say which, as tests want it.
// Used with `node --import`.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  const ready = args.findLast((argument) => typeof argument === "function");
  this.once("listening", () => console.error(`listening on http://127.0.0.1:${this.address().port}`));
  return listen.call(this, { port: 0, host: "127.0.0.1" }, ready);
};
