//! Tokens made from a shared secret: valid for a while, and for one connection. Every use is recorded on disk before
//! the token is accepted, so that a token cannot be replayed after a restart, nor at another gateway of the same state
//! directory.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use toolyard_proto::token::{BadToken, Checker, Rules, Use};

use crate::blocking::beside_tasks;
use crate::shared_file::{FileLock, SharedFile};

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

    /// Remembers uses in a file, from one process to the next and from one gateway to another.
    pub fn recorded(rules: Rules, path: &Path) -> io::Result<Self> {
        let mut state = SignedState { checker: Checker::new(rules), record: None };
        let mut record = UseRecord { file: SharedFile::new(path), lines: 0 };
        let _lock = record.file.lock()?;
        for used in record.new_uses()? {
            state.checker.remember(&used);
        }
        record.write(&state.checker.remembered(now()))?;
        state.record = Some(record);
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// The client that presents this token. This uses the token up.
    pub fn check(&self, token: Option<&str>) -> Result<Arc<str>, BadToken> {
        let token = token.ok_or(BadToken::Missing)?;
        // Another check may wait for the file.
        let mut state = self.0.try_lock().unwrap_or_else(|| beside_tasks(|| self.0.lock()));
        // First, so that an invalid token touches no file.
        state.checker.rules().verify(token, now())?;
        let cannot_record = |error: io::Error| {
            tracing::error!(target: "auth", %error, "refused a token: its use cannot be recorded");
            BadToken::Unrecorded
        };
        let _lock = state.learn().map_err(cannot_record)?;
        let used = state.checker.check(token, now())?;
        state.record(&used).map_err(cannot_record)?;
        Ok(used.client.into())
    }
}

impl SignedState {
    /// Learns the uses that other gateways have recorded. They record no others while the lock is held.
    fn learn(&mut self) -> io::Result<Option<FileLock>> {
        let Some(record) = &mut self.record else { return Ok(None) };
        let lock = record.file.lock()?;
        for used in record.new_uses()? {
            self.checker.remember(&used);
        }
        Ok(Some(lock))
    }

    fn record(&mut self, used: &Use) -> io::Result<()> {
        let Some(record) = &mut self.record else { return Ok(()) };
        match record.append(used) {
            // The file was removed while the gateway runs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return record.write(&self.checker.remembered(now()));
            }
            appended => appended?,
        }
        if record.lines > SLACK {
            let needed = self.checker.remembered(now());
            if record.lines > needed.len() + SLACK {
                record.write(&needed)?;
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
    file: SharedFile,
    lines: usize,
}

impl UseRecord {
    /// All uses in the file, if another gateway has changed it.
    fn new_uses(&mut self) -> io::Result<Vec<Use>> {
        let Some(content) = self.file.changed()? else { return Ok(Vec::new()) };
        let text = String::from_utf8_lossy(&content);
        self.lines = text.lines().count();
        // A line that was cut off belongs to a token that was not accepted.
        let parse = |line: &str| serde_json::from_str::<(u64, String)>(line).ok();
        Ok(text.lines().filter_map(parse).map(|(made, client)| Use { client, made }).collect())
    }

    fn write(&mut self, uses: &[Use]) -> io::Result<()> {
        let lines: String = uses.iter().map(|used| line(used) + "\n").collect();
        self.file.replace(lines.as_bytes())?;
        self.lines = uses.len();
        Ok(())
    }

    fn append(&mut self, used: &Use) -> io::Result<()> {
        self.file.append_line(&line(used))?;
        self.lines += 1;
        Ok(())
    }
}

fn line(used: &Use) -> String {
    serde_json::json!([used.made, used.client]).to_string()
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signed")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_use_recorded_after_a_line_that_was_cut_off_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("used-tokens");
        let (secret, rules) = rules();
        let token = secret.mint("a", now());
        let first = Signed::recorded(rules.clone(), &path).unwrap();
        fs::write(&path, "[1800,\"half").unwrap();
        assert!(first.check(Some(&token)).is_ok());
        assert_eq!(Signed::recorded(rules, &path).unwrap().check(Some(&token)), Err(BadToken::Used));
    }

    #[test]
    fn a_token_used_at_one_of_two_gateways_is_refused_at_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("used-tokens");
        let (secret, rules) = rules();
        let first = Signed::recorded(rules.clone(), &path).unwrap();
        // It rewrites the file that the first has in use.
        let second = Signed::recorded(rules.clone(), &path).unwrap();
        let tokens: Vec<String> = (0..4).map(|at| secret.mint("a", now() + at)).collect();
        for (at, token) in tokens.iter().enumerate() {
            let (one, other) = if at % 2 == 0 { (&first, &second) } else { (&second, &first) };
            assert!(one.check(Some(token)).is_ok());
            assert_eq!(other.check(Some(token)), Err(BadToken::Used));
        }
        let third = Signed::recorded(rules, &path).unwrap();
        assert!(tokens.iter().all(|token| third.check(Some(token)) == Err(BadToken::Used)));
    }

    #[test]
    fn a_token_sent_to_many_gateways_at_the_same_time_is_accepted_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("used-tokens");
        let (secret, rules) = rules();
        let gateways: Vec<Signed> = (0..4).map(|_| Signed::recorded(rules.clone(), &path).unwrap()).collect();
        for at in 0..10 {
            let token = secret.mint("a", now() + at);
            let accepted = std::thread::scope(|scope| {
                let token = &token;
                let checks: Vec<_> = gateways
                    .iter()
                    .map(|gateway| scope.spawn(move || gateway.check(Some(token)).is_ok()))
                    .collect();
                checks.into_iter().map(|check| check.join().unwrap()).filter(|is| *is).count()
            });
            assert_eq!(accepted, 1);
        }
    }

    #[test]
    fn a_use_that_cannot_be_recorded_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("used-tokens");
        let (secret, rules) = rules();
        let signed = Signed::recorded(rules, &path).unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(signed.check(Some(&secret.mint("a", now()))), Err(BadToken::Unrecorded));
        fs::create_dir(folder.path()).unwrap();
        assert!(signed.check(Some(&secret.mint("b", now()))).is_ok(), "the file is made again");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }
}
