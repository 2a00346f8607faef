//! A server as a child process of the test: one message a line.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::program::path;

pub(crate) struct Stdio {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stdio {
    pub(crate) fn start(words: &[String]) -> Self {
        let pipe = std::process::Stdio::piped;
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            // As below a gateway, which marks its children to know them again.
            .env_clear()
            .env("PATH", path())
            .env("TOOLYARD_RUN_DIRECT", "1")
            .stdin(pipe())
            .stdout(pipe())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("start {words:?}: {error}"));
        let stdin = child.stdin.take().expect("stdin is piped");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Self { _child: child, stdin, lines }
    }

    pub(crate) async fn write(&mut self, message: &str) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        self.stdin.flush().await.unwrap();
    }

    pub(crate) async fn read(&mut self) -> Option<String> {
        self.lines.next_line().await.unwrap()
    }
}
