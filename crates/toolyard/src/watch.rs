//! Waits for changes in folders. Where the system tells of them, that is at once; where it does not, whoever
//! waits looks often. Being told is a hint: network folders tell nothing, so it is looked from time to time
//! in any case.

#[cfg_attr(not(target_os = "linux"), path = "watch/untold.rs")]
mod told;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use told::Told;

/// How long a wait is at most where changes are told, and where they are not.
const TOLD: Duration = Duration::from_secs(2);
const UNTOLD: Duration = Duration::from_millis(50);
/// Changes come in bursts: this much later, most of one is over.
const SETTLE: Duration = Duration::from_millis(25);

pub(crate) struct Watch {
    folders: Vec<PathBuf>,
    told: Option<Told>,
}

impl Watch {
    pub(crate) fn over(folders: &[PathBuf]) -> Self {
        let mut watch = Self { folders: folders.to_vec(), told: None };
        watch.arm();
        watch
    }

    /// How long it takes at most until a change is noticed.
    pub(crate) fn pause(&self) -> Duration {
        if self.told.is_some() { TOLD } else { UNTOLD }
    }

    /// Waits until something may have changed. Whatever changes after this returns is told by the next one.
    pub(crate) async fn change(&mut self) {
        match &self.told {
            Some(told) => {
                if timeout(TOLD, told.heard()).await.is_ok() {
                    sleep(SETTLE).await;
                    told.drain();
                }
            }
            None => sleep(UNTOLD).await,
        }
        self.arm();
    }

    /// A folder that is not there yet is awaited in the nearest one that is. A place that was replaced is
    /// told about anew: to ask twice for the same one does no harm.
    fn arm(&mut self) {
        let places: Vec<PathBuf> = self.folders.iter().map(|folder| nearest(folder).to_owned()).collect();
        let told = self.told.take().filter(|told| told.places() == places);
        let told = told.or_else(|| Told::begin(places));
        self.told = told.filter(Told::ask);
    }
}

fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|place| place.is_dir()).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Does `act` while somebody waits, and gives whether he was told before he would have looked anyway.
    async fn is_told(watch: &mut Watch, act: impl FnOnce()) -> bool {
        let begun = tokio::time::Instant::now();
        act();
        watch.change().await;
        begun.elapsed() < TOLD
    }

    #[tokio::test]
    async fn what_happens_in_a_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        let mut watch = Watch::over(&[folder.path().to_owned()]);
        assert_eq!(watch.pause(), TOLD);
        assert!(is_told(&mut watch, || fs::write(&file, "1").unwrap()).await);
        assert!(is_told(&mut watch, || fs::write(&file, "2").unwrap()).await);
        assert!(is_told(&mut watch, || fs::rename(&file, &other).unwrap()).await);
        assert!(is_told(&mut watch, || fs::remove_file(&other).unwrap()).await);
        assert!(!is_told(&mut watch, || ()).await);
    }

    #[tokio::test]
    async fn a_folder_that_comes_later_is_told_of_and_watched() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("deep/er");
        let mut watch = Watch::over(std::slice::from_ref(&folder));
        assert!(is_told(&mut watch, || fs::create_dir_all(&folder).unwrap()).await);
        assert!(is_told(&mut watch, || fs::write(folder.join("a"), "1").unwrap()).await);
        assert!(is_told(&mut watch, || fs::remove_dir_all(&folder).unwrap()).await);
        assert!(is_told(&mut watch, || fs::create_dir(&folder).unwrap()).await);
        assert!(is_told(&mut watch, || fs::write(folder.join("a"), "1").unwrap()).await);
    }

    #[tokio::test]
    async fn a_folder_that_is_lost_again_and_again_is_watched_again_every_time() {
        let base = tempfile::tempdir().unwrap();
        let (above, folder) = (base.path().join("deep"), base.path().join("deep/er"));
        let mut watch = Watch::over(std::slice::from_ref(&folder));
        for round in 0..3 {
            assert!(is_told(&mut watch, || fs::create_dir_all(&folder).unwrap()).await, "{round}");
            assert!(is_told(&mut watch, || fs::write(folder.join("a"), "1").unwrap()).await, "{round}");
            let lost = if round == 1 { &folder } else { &above };
            assert!(is_told(&mut watch, || fs::remove_dir_all(lost).unwrap()).await, "{round}");
            assert_eq!(watch.pause(), TOLD, "{round}");
        }
        // Another folder in its place, twice.
        fs::create_dir_all(&folder).unwrap();
        watch.change().await;
        for aside in ["one", "two"].map(|name| above.join(name)) {
            let swap = || {
                fs::rename(&folder, &aside).unwrap();
                fs::create_dir(&folder).unwrap();
            };
            assert!(is_told(&mut watch, swap).await);
            assert!(is_told(&mut watch, || fs::write(folder.join("b"), "1").unwrap()).await);
        }
    }

    #[tokio::test]
    async fn where_nothing_is_told_it_is_looked_often() {
        let mut watch = Watch::over(&["nowhere".into()]);
        assert_eq!(watch.pause(), UNTOLD);
        watch.change().await;
        assert_eq!(watch.pause(), UNTOLD);
    }
}
