//! Waits for changes in folders. Where the system reports them, the wait ends at once; elsewhere it is short, and the
//! caller looks often. A report is only a hint: network folders report nothing, so no wait is long.

#[cfg_attr(not(target_os = "linux"), path = "watch/elsewhere.rs")]
mod linux;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use linux::Notices;

/// How long a wait is at most where the system reports changes, and where it does not.
const REPORTED: Duration = Duration::from_secs(2);
const UNREPORTED: Duration = Duration::from_millis(50);
/// Changes come in bursts: after this time, most bursts are over.
const SETTLE: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub(super) struct Watch {
    folders: Vec<PathBuf>,
    notices: Option<Notices>,
}

impl Watch {
    pub(super) fn over(folders: &[PathBuf]) -> Self {
        let mut watch = Self { folders: folders.to_vec(), notices: None };
        watch.arm();
        watch
    }

    /// How long it takes at most until a change is noticed.
    pub(super) fn pause(&self) -> Duration {
        if self.notices.is_some() { REPORTED } else { UNREPORTED }
    }

    /// Waits until something may have changed. A change after this returns ends the next wait.
    pub(super) async fn change(&mut self) {
        match &self.notices {
            Some(notices) => {
                if timeout(REPORTED, notices.arrived()).await.is_ok() {
                    sleep(SETTLE).await;
                    notices.drain();
                }
            }
            None => sleep(UNREPORTED).await,
        }
        self.arm();
    }

    /// A folder that is not there yet is awaited in the nearest one that is. A place that was replaced is watched again:
    /// to watch the same place twice does no harm.
    fn arm(&mut self) {
        let places: Vec<PathBuf> = self.folders.iter().map(|folder| nearest(folder).to_owned()).collect();
        let notices = self.notices.take().filter(|notices| notices.places() == places);
        let notices = notices.or_else(|| Notices::begin(places));
        self.notices = notices.filter(Notices::watch);
    }
}

fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|place| place.is_dir()).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether a change ends a wait before its time.
    async fn is_reported(watch: &mut Watch, act: impl FnOnce()) -> bool {
        let begun = tokio::time::Instant::now();
        act();
        watch.change().await;
        begun.elapsed() < REPORTED
    }

    #[tokio::test]
    async fn changes_in_a_folder_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        let mut watch = Watch::over(&[folder.path().to_owned()]);
        assert_eq!(watch.pause(), REPORTED);
        assert!(is_reported(&mut watch, || fs::write(&file, "1").unwrap()).await);
        assert!(is_reported(&mut watch, || fs::write(&file, "2").unwrap()).await);
        assert!(is_reported(&mut watch, || fs::rename(&file, &other).unwrap()).await);
        assert!(is_reported(&mut watch, || fs::remove_file(&other).unwrap()).await);
        assert!(!is_reported(&mut watch, || ()).await);
    }

    #[tokio::test]
    async fn a_folder_that_is_made_later_is_watched() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("deep/er");
        let mut watch = Watch::over(std::slice::from_ref(&folder));
        assert!(is_reported(&mut watch, || fs::create_dir_all(&folder).unwrap()).await);
        assert!(is_reported(&mut watch, || fs::write(folder.join("a"), "1").unwrap()).await);
        assert!(is_reported(&mut watch, || fs::remove_dir_all(&folder).unwrap()).await);
        assert!(is_reported(&mut watch, || fs::create_dir(&folder).unwrap()).await);
        assert!(is_reported(&mut watch, || fs::write(folder.join("a"), "1").unwrap()).await);
    }

    #[tokio::test]
    async fn a_folder_that_is_lost_again_and_again_is_watched_again_every_time() {
        let base = tempfile::tempdir().unwrap();
        let (above, folder) = (base.path().join("deep"), base.path().join("deep/er"));
        let mut watch = Watch::over(std::slice::from_ref(&folder));
        for round in 0..3 {
            assert!(is_reported(&mut watch, || fs::create_dir_all(&folder).unwrap()).await, "{round}");
            assert!(is_reported(&mut watch, || fs::write(folder.join("a"), "1").unwrap()).await, "{round}");
            let lost = if round == 1 { &folder } else { &above };
            assert!(is_reported(&mut watch, || fs::remove_dir_all(lost).unwrap()).await, "{round}");
            assert_eq!(watch.pause(), REPORTED, "{round}");
        }
        // Another folder in its place, twice.
        fs::create_dir_all(&folder).unwrap();
        watch.change().await;
        for aside in ["one", "two"].map(|name| above.join(name)) {
            let swap = || {
                fs::rename(&folder, &aside).unwrap();
                fs::create_dir(&folder).unwrap();
            };
            assert!(is_reported(&mut watch, swap).await);
            assert!(is_reported(&mut watch, || fs::write(folder.join("b"), "1").unwrap()).await);
        }
    }

    #[tokio::test]
    async fn without_reports_the_wait_is_short() {
        let mut watch = Watch::over(&["nowhere".into()]);
        assert_eq!(watch.pause(), UNREPORTED);
        watch.change().await;
        assert_eq!(watch.pause(), UNREPORTED);
    }
}
