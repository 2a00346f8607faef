//! Tokens made from a shared secret: valid for a while, and for one connection. Every use is recorded on disk before
//! the token is accepted, so that a token cannot be replayed after a restart.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use toolyard_proto::token::{BadToken, Checker, Rules, Use};

use crate::private_file;

/// The file is rewritten without expired uses when it has so many lines more than are needed.
const SLACK: usize = 10_000;

/// Checks tokens and remembers which were used. All listeners of a gateway share one.
#[derive(Clone)]
pub struct Signed(Arc<Mutex<SignedState>>);

struct SignedState {
    checker: Checker,
    record: Option<UseRecord>,
}

impl Signed {
    /// Remembers uses for as long as the process lives.
    pub fn new(rules: Rules) -> Self {
        Self(Arc::new(Mutex::new(SignedState { checker: Checker::new(rules), record: None })))
    }

    /// The answers to a challenge, one for each secret that is valid now.
    pub fn prove(&self, nonce: &str) -> Vec<String> {
        let state = self.0.lock();
        state.checker.rules().secrets.iter().map(|secret| secret.prove(nonce)).collect()
    }

    /// Remembers uses in a file, from one process to the next.
    pub fn recorded(rules: Rules, path: &Path) -> io::Result<Self> {
        let mut checker = Checker::new(rules);
        for used in UseRecord::read(path)? {
            checker.remember(&used);
        }
        let record = UseRecord::write(path, &checker.remembered(now()))?;
        Ok(Self(Arc::new(Mutex::new(SignedState { checker, record: Some(record) }))))
    }

    /// The client that presents this token. This uses the token up.
    pub fn check(&self, token: Option<&str>) -> Result<Arc<str>, BadToken> {
        let token = token.ok_or(BadToken::Missing)?;
        let mut state = self.0.lock();
        let used = state.checker.check(token, now())?;
        state.record(&used).map_err(|error| {
            tracing::error!(target: "auth", %error, "refused a token: its use cannot be recorded");
            BadToken::Unrecorded
        })?;
        Ok(used.client.into())
    }
}

impl SignedState {
    fn record(&mut self, used: &Use) -> io::Result<()> {
        let Some(record) = &mut self.record else { return Ok(()) };
        record.append(used)?;
        if record.lines > SLACK {
            let needed = self.checker.remembered(now());
            if record.lines > needed.len() + SLACK {
                *record = UseRecord::write(&record.path, &needed)?;
            }
        }
        Ok(())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A file with one line for each use: `[made, "client"]`. A use is on the disk before its token is accepted, so that it
/// is not lost when the process or the machine fails. Each connection that opens with such a token waits for that.
struct UseRecord {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl UseRecord {
    fn read(path: &Path) -> io::Result<Vec<Use>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        // A line that was cut off belongs to a token that was not accepted.
        let parse = |line: &str| serde_json::from_str::<(u64, String)>(line).ok();
        Ok(text.lines().filter_map(parse).map(|(made, client)| Use { client, made }).collect())
    }

    fn write(path: &Path, uses: &[Use]) -> io::Result<Self> {
        let lines: String = uses.iter().map(line).collect();
        private_file::write(path, lines.as_bytes())?;
        let file = File::options().append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, lines: uses.len() })
    }

    fn append(&mut self, used: &Use) -> io::Result<()> {
        self.file.write_all(line(used).as_bytes())?;
        self.file.sync_data()?;
        self.lines += 1;
        Ok(())
    }
}

fn line(used: &Use) -> String {
    format!("{}\n", serde_json::json!([used.made, used.client]))
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signed")
    }
}

#[cfg(test)]
mod tests {
    use toolyard_proto::token::Secret;

    use super::*;

    fn rules() -> (Secret, Rules) {
        let secret = Secret::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
        let rules = Rules { secrets: vec![secret.clone()], window: Rules::WINDOW, skew: Rules::SKEW };
        (secret, rules)
    }

    #[test]
    fn a_token_used_in_one_process_is_refused_in_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("used-tokens");
        let (secret, rules) = rules();
        let token = secret.mint("a \"b\"\nc", now());
        let first = Signed::recorded(rules.clone(), &path).unwrap();
        assert!(first.check(Some(&token)).is_ok());
        let second = Signed::recorded(rules.clone(), &path).unwrap();
        assert_eq!(second.check(Some(&token)), Err(BadToken::Used));
        assert!(second.check(Some(&secret.mint("a", now() + 1))).is_ok());
        drop(second);
        fs::write(&path, "[1800,\"half").unwrap();
        assert!(Signed::recorded(rules, &path).unwrap().check(Some(&token)).is_ok());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    #[test]
    fn a_use_that_cannot_be_recorded_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("used-tokens");
        let (secret, rules) = rules();
        let signed = Signed::recorded(rules, &path).unwrap();
        signed.0.lock().record.as_mut().unwrap().file = File::open(&path).unwrap();
        assert_eq!(signed.check(Some(&secret.mint("a", now()))), Err(BadToken::Unrecorded));
    }
}
