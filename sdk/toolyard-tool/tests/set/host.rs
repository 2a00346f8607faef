//! What a host gives to a pack: background work whose panics are logged, and locks on the cache.

use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolyard_tool::Host;
use tracing_subscriber::fmt::MakeWriter;

/// Collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_panic_of_background_work_is_logged_with_its_pack_and_name_and_ends_only_that_work() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let host = Host::inert("code");
    let (sender, other_work) = oneshot::channel();
    host.spawn("watch", std::future::pending());
    host.spawn("index", async { panic!("no such table") });
    host.spawn("after", async move { sender.send(()).unwrap() });
    other_work.await.unwrap();
    assert_eq!(host.running(), ["watch"], "the work that panicked is no longer listed");
    let log = log.text();
    let expected = "background work of a pack panicked pack=code work=index panic=\"no such table\"";
    assert!(log.contains("ERROR") && log.contains(expected), "{log}");
}

#[tokio::test]
async fn a_part_of_the_cache_has_one_holder_among_all_gateways_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (Host::for_tests(folder.path()), Host::for_tests(folder.path()));
    let moment = Duration::from_millis(1);
    let lock = one.cache_lock("index", moment).await.unwrap();
    assert_eq!(other.try_cache_lock("index").unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(other.cache_lock("index", moment).await.unwrap_err().kind(), ErrorKind::TimedOut);
    other.try_cache_lock("another").unwrap();

    // A pack may delete its cache while it holds the lock.
    std::fs::remove_dir_all(one.cache().unwrap()).unwrap();
    assert_eq!(other.try_cache_lock("index").unwrap_err().kind(), ErrorKind::WouldBlock);

    let waiting = other.cache_lock("index", Duration::from_secs(20));
    let releasing = async { drop(lock) };
    let (locked, ()) = tokio::join!(waiting, releasing);
    locked.unwrap();
    for name in ["", "a/b", ".."] {
        assert_eq!(one.try_cache_lock(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
    }
}
