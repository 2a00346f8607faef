#!/usr/bin/env node
// Runs the program of this machine's package. Nothing is downloaded: npm has installed it beside this one.
"use strict";
const { spawn } = require("node:child_process");

const name = `toolyard-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/toolyard`);
} catch {
  console.error(`toolyard: the package ${name} is not installed. Either there is none for this machine, or npm left out optional packages: install again without --omit=optional.`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`toolyard: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
