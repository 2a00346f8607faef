//! A Unix socket at a path, for its owner only.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::{UnixListener, UnixStream};

use super::LONGEST_PATH;
use crate::{Transport, processes};

/// How long the end of a listener may take.
const LONGEST_END: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
/// How long a connection stays open if its listener is alive.
const CLOSES_WITHIN: Duration = Duration::from_millis(250);

pub type LocalStream = UnixStream;

/// What a local socket is.
pub const TRANSPORT: Transport = Transport::Unix;

/// Connects to the listener at `path`.
pub async fn connect(path: &Path) -> io::Result<LocalStream> {
    UnixStream::connect(path).await
}

/// Whether a program listens at `path` now. That program sees a client connect and disconnect.
pub fn is_answered(path: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(path).is_ok()
}

/// The process at the other end of a connection, where the system reports it.
pub fn peer(stream: &LocalStream) -> Option<u32> {
    stream.peer_cred().ok()?.pid().and_then(|pid| u32::try_from(pid).ok())
}

/// An error if another user is at the other end: being able to create a socket at a path does not prove that
/// the process belongs to our user.
pub fn refuse_strangers(stream: &LocalStream) -> io::Result<()> {
    let (us, _) = UnixStream::pair()?;
    if stream.peer_cred()?.uid() == us.peer_cred()?.uid() {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, "another user listens there"))
}

/// Listens at a path for as long as it lives, then removes it.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl LocalListener {
    /// Takes the path. What a dead listener left there is replaced; if a program answers, the path is in
    /// use. The folder must exist.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() > LONGEST_PATH {
            let message = format!("the path is longer than {LONGEST_PATH} bytes");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let _alone = lock(path)?;
        if path.exists() {
            refuse_if_in_use(path)?;
        }
        // Made under another name and moved into place: clients never find a socket that is open to other users,
        // or one that does not listen yet.
        let draft = draft_of(path);
        let _ = fs::remove_file(&draft);
        let listener = UnixListener::bind(&draft)?;
        let placed = fs::set_permissions(&draft, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&draft, path))
            .and_then(|()| fs::symlink_metadata(path));
        match placed {
            Ok(place) => Ok(Self { listener, path: path.to_owned(), inode: place.ino() }),
            Err(error) => {
                let _ = fs::remove_file(&draft);
                Err(error)
            }
        }
    }

    pub async fn accept(&self) -> io::Result<LocalStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalListener {
    /// Another process may have taken the path meanwhile.
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|place| place.ino() == self.inode);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A name of its own for each socket of each process: one process binds several sockets in one folder at a time.
fn draft_of(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{stem}.{:x}", std::process::id()))
}

/// Two processes that find the same dead socket must not both replace it.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

/// A listener that is being killed still takes connections, so its end is waited for.
fn refuse_if_in_use(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the path exists and is not a socket"));
    }
    let begun = Instant::now();
    loop {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(stream) if is_ending(&stream) && begun.elapsed() < LONGEST_END => std::thread::sleep(PAUSE),
            Ok(_) => return Err(io::Error::new(ErrorKind::AddrInUse, "another program listens there")),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the process at the other end is about to end, or closes the connection without sending anything.
fn is_ending(stream: &std::os::unix::net::UnixStream) -> bool {
    let listener = rustix::net::sockopt::socket_peercred(stream).ok();
    let process = listener.and_then(|listener| processes::find(listener.pid.as_raw_nonzero().get()));
    process.is_some_and(|process| process.is_dead || process.is_ending())
        || stream.set_read_timeout(Some(CLOSES_WITHIN)).is_ok()
            && !matches!((&mut &*stream).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_dead_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let first = LocalListener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(LocalListener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        let (dialled, accepted) = tokio::join!(connect(&path), first.accept());
        assert!(dialled.is_ok() && accepted.is_ok());
        drop(first);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let second = LocalListener::bind(&path).unwrap();
        assert!(connect(&path).await.is_ok());
        drop(second);
        fs::write(&path, "a letter").unwrap();
        assert_eq!(LocalListener::bind(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }

    #[tokio::test]
    async fn two_sockets_of_one_folder_are_bound_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["mcp.sock", "apps.sock"].map(|name| folder.path().join(name));
        for round in 0..200 {
            let start = std::sync::Barrier::new(2);
            let bind = |path| {
                start.wait();
                LocalListener::bind(path)
            };
            let runtime = tokio::runtime::Handle::current();
            let _bound = std::thread::scope(|scope| {
                let threads = paths.each_ref().map(|path| {
                    let (runtime, bind) = (runtime.clone(), &bind);
                    scope.spawn(move || {
                        let _entered = runtime.enter();
                        bind(path)
                    })
                });
                threads.map(|thread| thread.join().unwrap().unwrap())
            });
            for path in &paths {
                assert!(connect(path).await.is_ok(), "round {round}: {} does not accept", path.display());
            }
        }
    }

    #[test]
    fn a_listener_that_closes_every_connection_at_once_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let dying = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let ends = std::thread::spawn(move || (0..3).for_each(|_| drop(dying.accept())));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        drop(LocalListener::bind(&path).unwrap());
        ends.join().unwrap();
    }

    #[tokio::test]
    async fn a_listener_that_was_replaced_leaves_its_successor_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let first = LocalListener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = LocalListener::bind(&path).unwrap();
        drop(first);
        assert!(connect(&path).await.is_ok());
        drop(second);
    }
}
