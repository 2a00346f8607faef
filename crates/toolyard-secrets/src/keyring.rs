//! The key of a store in the keyring of the operating system, through the program that comes with it: `secret-tool` for
//! the Secret Service of a desktop session on Linux, `security` for the keychain of macOS. `docs/design/secrets.md` has
//! the reasons.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use zeroize::Zeroizing;

/// How long a keyring may take, with the time that a user needs to unlock it.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);
/// The exit code of `security` if there is no such item.
const NO_ITEM: i32 = 44;
const SERVICE: &str = "toolyard";

/// Keys that were read, by the folder of their store: a gateway reads its secrets often.
static READ: Mutex<BTreeMap<PathBuf, Text>> = Mutex::new(BTreeMap::new());

/// The content of a key file.
pub(crate) type Text = Zeroizing<Vec<u8>>;

/// The place in the keyring for the key of one store.
pub(crate) struct Keyring<'a> {
    folder: &'a Path,
}

impl<'a> Keyring<'a> {
    pub(crate) fn of(folder: &'a Path) -> Self {
        Self { folder }
    }

    /// The key, if the keyring has one for this store. `again` asks the keyring although the key was read before.
    pub(crate) fn load(&self, again: bool) -> Result<Option<Text>, String> {
        if let Some(text) = read().get(self.folder).filter(|_| !again) {
            return Ok(Some(text.clone()));
        }
        let found = match System::here()? {
            System::SecretService => {
                // Without an item it fails and prints nothing.
                let done = run(self.secret_tool(&["lookup"]), b"")?;
                if done.status != Some(0) && !done.why.is_empty() {
                    return Err(done.why);
                }
                Some(done.output).filter(|output| !output.is_empty())
            }
            System::Keychain => {
                let done = run(self.security("find-generic-password", &["-w"]), b"")?;
                if done.status == Some(NO_ITEM) { None } else { Some(done.checked()?) }
            }
        };
        if let Some(text) = &found {
            read().insert(self.folder.to_owned(), text.clone());
        }
        Ok(found)
    }

    /// Stores a key, and reads it back.
    pub(crate) fn store(&self, text: &Text) -> Result<(), String> {
        let key = text.trim_ascii();
        match System::here()? {
            System::SecretService => {
                run(self.secret_tool(&["store", "--label=Key of Toolyard's secrets"]), key)?.checked()?;
            }
            System::Keychain => {
                // On stdin, since other users can see arguments.
                let key = Zeroizing::new(String::from_utf8_lossy(key).into_owned());
                let account = self.account().replace('\\', "\\\\").replace('"', "\\\"");
                let line = Zeroizing::new(format!(
                    "add-generic-password -U -s {SERVICE} -a \"{account}\" -w \"{}\"\n",
                    key.as_str()
                ));
                let mut command = Command::new("security");
                command.arg("-i");
                run(command, line.as_bytes())?.checked()?;
            }
        }
        match self.load(true)? {
            Some(stored) if stored.trim_ascii() == key => Ok(()),
            _ => Err("it did not return the key that was stored".to_owned()),
        }
    }

    /// Removes the key.
    pub(crate) fn clear(&self) -> Result<(), String> {
        read().remove(self.folder);
        let command = match System::here()? {
            System::SecretService => self.secret_tool(&["clear"]),
            System::Keychain => self.security("delete-generic-password", &[]),
        };
        run(command, b"")?.checked().map(drop)
    }

    fn secret_tool(&self, first: &[&str]) -> Command {
        let mut command = Command::new("secret-tool");
        command.args(first).args(["application", SERVICE, "store"]).arg(self.folder);
        command
    }

    fn security(&self, verb: &str, last: &[&str]) -> Command {
        let mut command = Command::new("security");
        command.args([verb, "-s", SERVICE, "-a"]).arg(self.account()).args(last);
        command
    }

    fn account(&self) -> String {
        self.folder.to_string_lossy().into_owned()
    }
}

fn read() -> MutexGuard<'static, BTreeMap<PathBuf, Text>> {
    READ.lock()
}

enum System {
    SecretService,
    Keychain,
}

impl System {
    fn here() -> Result<Self, String> {
        match std::env::consts::OS {
            "linux" | "freebsd" | "netbsd" | "openbsd" | "dragonfly" => Ok(Self::SecretService),
            "macos" => Ok(Self::Keychain),
            other => Err(format!("the keyring of {other} is not supported")),
        }
    }
}

struct Done {
    status: Option<i32>,
    output: Text,
    /// Its stderr output.
    why: String,
}

impl Done {
    fn checked(self) -> Result<Text, String> {
        match self.status {
            Some(0) => Ok(self.output),
            _ if self.why.is_empty() => Err("the keyring refused without a reason".to_owned()),
            _ => Err(self.why),
        }
    }
}

/// Runs the program of a keyring. Its output is a few bytes, which its pipes hold.
fn run(mut command: Command, input: &[u8]) -> Result<Done, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound if program == "secret-tool" => {
            "the program `secret-tool` was not found; Debian has it in `libsecret-tools`".to_owned()
        }
        _ => format!("{program}: {error}"),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early reports why.
        let _ = stdin.write_all(input);
    }
    let status = wait(&mut child).map_err(failed)?;
    let Some(status) = status else {
        return Err(format!("`{program}` did not answer within {} s", PATIENCE.as_secs()));
    };
    let (mut output, mut why) = (Zeroizing::new(Vec::new()), String::new());
    if let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) {
        stdout.read_to_end(&mut output).map_err(failed)?;
        stderr.read_to_string(&mut why).map_err(failed)?;
    }
    Ok(Done { status: status.code(), output, why: why.trim().to_owned() })
}

/// Waits for the end; nothing if it took too long and was killed.
fn wait(child: &mut Child) -> std::io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}
