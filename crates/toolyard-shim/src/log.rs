//! The log of a gateway that the shim started: a file in the state directory, which is the gateway's stderr. It is
//! bounded at its start and while the gateway runs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

pub(crate) const FILE: &str = "gateway.log";
/// The start of a log that was cut.
const OLD_FILE: &str = "gateway.log.old";
/// A longer log is cut.
pub(crate) const MAX_LENGTH: u64 = 1024 * 1024;
/// How much of its end is kept.
const KEPT: u64 = MAX_LENGTH / 2;
const LOOK: Duration = Duration::from_secs(5);

/// Keeps the log in this folder bounded until it is dropped.
pub async fn keep_log_bounded(folder: &Path) {
    loop {
        tokio::time::sleep(LOOK).await;
        let folder = folder.to_owned();
        let cut = tokio::task::spawn_blocking(move || cut(&folder)).await;
        if let Ok(Err(error)) = cut {
            tracing::debug!(%error, "the log could not be cut");
        }
    }
}

/// Moves the end of a log that is too long to another file and empties the log. The gateway appends to the same file
/// all the time, so it cannot be replaced.
fn cut(folder: &Path) -> io::Result<()> {
    let path = folder.join(FILE);
    let length = match fs::metadata(&path) {
        Ok(about) if about.is_file() => about.len(),
        _ => return Ok(()),
    };
    if length <= MAX_LENGTH {
        return Ok(());
    }
    let mut log = File::options().read(true).write(true).open(&path)?;
    let mut old = File::create(folder.join(OLD_FILE))?;
    log.seek(SeekFrom::Start(length - KEPT))?;
    io::copy(&mut log.by_ref().take(KEPT), &mut old)?;
    // The log is stderr, and the gateway writes each record under the lock of stderr. While this thread holds it, no
    // record is written between the last read and the cut.
    let _no_record = io::stderr().lock();
    io::copy(&mut log, &mut old)?;
    log.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_long_log_is_cut_while_it_is_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut writer = File::options().create(true).append(true).open(&path).unwrap();
        writer.write_all(b"short\n").unwrap();
        cut(folder.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short\n");
        writer.write_all(&vec![b'x'; usize::try_from(MAX_LENGTH).unwrap()]).unwrap();
        cut(folder.path()).unwrap();
        writer.write_all(b"after\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after\n");
        assert_eq!(fs::metadata(folder.path().join(OLD_FILE)).unwrap().len(), KEPT);
    }

    #[test]
    fn a_record_that_is_written_while_the_log_is_cut_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join(OLD_FILE);
        let mut log = File::options().create(true).append(true).open(folder.path().join(FILE)).unwrap();
        log.write_all(&vec![b'x'; usize::try_from(MAX_LENGTH + 1).unwrap()]).unwrap();
        let writing = io::stderr().lock();
        std::thread::scope(|scope| {
            let cutting = scope.spawn(|| cut(folder.path()).unwrap());
            while fs::metadata(&old).map_or(0, |about| about.len()) < KEPT {
                assert!(!cutting.is_finished(), "the end of the log was not kept");
                std::thread::yield_now();
            }
            log.write_all(b"record\n").unwrap();
            drop(writing);
        });
        assert!(fs::read(&old).unwrap().ends_with(b"xrecord\n"));
        assert_eq!(log.metadata().unwrap().len(), 0);
    }
}
