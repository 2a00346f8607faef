//! However a path is written, and whatever is swapped during the call, no tool reads or changes anything outside.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::jailed::{SECRET, calls, library, outside};

/// Parts of paths that an attacker would use to leave the root, and some that exist.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["a", "link", "in.mp3", "song.mp3", "out", "library"]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["..", ".", "", "\0", "...", "~", "-", " ", "%2e%2e", "..\\", "OUT"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(part(), 0..6))
        .prop_map(|(is_absolute, parts)| if is_absolute { "/" } else { "" }.to_owned() + &parts.join("/"))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_path_reads_or_changes_anything_outside(
        wishes in prop::collection::vec((any::<prop::sample::Index>(), path()), 1..15),
    ) {
        runtime().block_on(async {
            let mut music = library().await;
            let before = outside(&music);
            let real = music.folder.path().join("out").display().to_string();
            for (index, path) in &wishes {
                let calls = calls(&path.replace("OUT", &real));
                let (tool, arguments) = index.get(&calls);
                let result = music.result(tool, arguments.clone()).await;
                assert!(!result.to_string().contains(SECRET), "{tool} {arguments}: {result}");
            }
            assert_eq!(outside(&music), before, "{wishes:?}");
            assert!(music.root().is_dir());
        });
    }

    #[test]
    fn no_swap_during_a_call_reads_or_changes_anything_outside(
        wishes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec!["a", "a/song.mp3"])), 10..40),
    ) {
        runtime().block_on(async {
            let mut music = library().await;
            let before = outside(&music);
            let swapping = Swapping::of(&music.root());
            for (index, path) in &wishes {
                let calls = calls(path);
                let (tool, arguments) = index.get(&calls);
                let result = music.result(tool, arguments.clone()).await;
                assert!(!result.to_string().contains(SECRET), "{tool} {arguments}: {result}");
            }
            assert!(swapping.end() > 10, "it was hardly swapped");
            assert_eq!(outside(&music), before, "{wishes:?}");
        });
    }
}

/// The folder `a` and the link `link` change places in one step, over and over. Either may have gone to another
/// place by one of the calls; then it stays as it is.
struct Swapping {
    is_over: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl Swapping {
    fn of(root: &Path) -> Self {
        let (is_over, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (one, other) = (root.join("a"), root.join("link"));
        let (over, count) = (is_over.clone(), swaps.clone());
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { is_over, swaps, thread }
    }

    fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.swaps.load(Ordering::Relaxed)
    }
}
