//! The real program, started for one test: on a free port, with folders of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A home with nothing in it, and the program in it.
pub(crate) struct Home {
    folder: TempDir,
}

/// A running gateway. Ended for good when dropped.
pub(crate) struct Gateway {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) url: String,
    /// Its output up to and including the line with the address.
    pub(crate) first_words: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// The program in this home, with nothing of the environment but where programs are.
    pub(crate) fn toolyard(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.folder.path()).env("XDG_RUNTIME_DIR", self.folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command that ends by itself: exit code, stdout, stderr.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.toolyard(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Starts a gateway on a free port, with `state` in this home as its state directory.
    pub(crate) fn start(&self, arguments: &[&str]) -> Gateway {
        self.start_where_it_likes(&[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    pub(crate) fn start_where_it_likes(&self, arguments: &[&str]) -> Gateway {
        Self::wait_for(&mut self.toolyard(&[&["--state-dir", "state"], arguments].concat()))
    }

    /// Starts a gateway on a free port, with this variable in its environment.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_with(&self, (name, value): (&str, &str)) -> Gateway {
        let arguments = ["--state-dir", "state", "--listen", "127.0.0.1:0"];
        Self::wait_for(self.toolyard(&arguments).env(name, value))
    }

    fn wait_for(command: &mut Command) -> Gateway {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut gateway = Gateway { child, stderr, url: String::new(), first_words: String::new() };
        gateway.wait_for_address();
        gateway
    }
}

impl Gateway {
    fn wait_for_address(&mut self) {
        while self.url.is_empty() {
            let mut line = String::new();
            assert!(
                self.stderr.read_line(&mut line).unwrap() > 0,
                "it does not listen: {}",
                self.first_words
            );
            self.first_words.push_str(&line);
            line.trim_end().strip_prefix("listening on ").unwrap_or_default().clone_into(&mut self.url);
        }
    }

    /// Reads on until it has printed this; it prints something at least when it ends.
    pub(crate) fn wait_for_words(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "it never printed {words:?}");
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for the end: the exit status, and what it printed since it listened, on stdout too.
    pub(crate) fn wait(mut self) -> (ExitStatus, String, String) {
        let (mut words, mut stdout) = (String::new(), String::new());
        self.stderr.read_to_string(&mut words).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        (self.child.wait().unwrap(), words, stdout)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds. Every wait of a test is one of these, so each has a deadline.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process whose id is in a file.
pub(crate) fn process_in(file: &Path) -> Pid {
    eventually(&format!("a process id in {}", file.display()), || {
        Some(Pid::from_raw(std::fs::read_to_string(file).ok()?.trim().parse().ok()?))
    })
}

pub(crate) fn is_alive(process: Pid) -> bool {
    kill(process, None).is_ok()
}
