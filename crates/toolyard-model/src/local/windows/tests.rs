//! Named pipes as their callers use them.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;

/// A path of this test alone: pipes belong to the machine, and tests run at the same time.
fn place(test: &str) -> PathBuf {
    PathBuf::from(format!(r"C:\users\me\toolyard\{}\{test}.sock", std::process::id()))
}

async fn pair(path: &Path, listener: &LocalListener) -> (LocalStream, LocalStream) {
    let (client, server) = tokio::join!(connect(path), listener.accept());
    (client.unwrap(), server.unwrap())
}

#[tokio::test]
async fn clients_come_one_after_the_other() {
    let path = place("one-after-the-other");
    assert!(connect(&path).await.is_err());
    let listener = LocalListener::bind(&path).unwrap();
    for round in 0..3 {
        let (mut client, mut server) = pair(&path, &listener).await;
        client.write_all(&[round, b'\n']).await.unwrap();
        let mut received = [0; 2];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(received, [round, b'\n']);
        server.write_all(b"well\n").await.unwrap();
        drop(server);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"well\n", "what was written before the end is read, then the end");
    }
    drop(listener);
    assert!(connect(&path).await.is_err());
}

#[tokio::test]
async fn many_clients_are_served_at_once() {
    const CLIENTS: u8 = 40;
    let path = place("at-once");
    let listener = LocalListener::bind(&path).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let path = path.clone();
        tasks.spawn(async move {
            let mut stream = connect(&path).await.unwrap();
            let sent = vec![client; 100_000];
            let mut received = vec![0; sent.len()];
            let (mut read, mut write) = tokio::io::split(&mut stream);
            let (wrote, got) = tokio::join!(write.write_all(&sent), read.read_exact(&mut received));
            wrote.unwrap();
            got.unwrap();
            assert!(received == sent, "each reads what it wrote");
        });
    }
    let mut servers = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let stream = listener.accept().await.unwrap();
        servers.spawn(async move {
            let (mut read, mut write) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
    }
    while let Some(done) = timeout(Duration::from_secs(60), tasks.join_next()).await.unwrap() {
        done.unwrap();
    }
    while servers.join_next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_is_refused_and_its_owner_continues() {
    let path = place("taken");
    assert!(!is_answered(&path));
    let first = LocalListener::bind(&path).unwrap();
    let mut owner = tokio::task::JoinSet::new();
    owner.spawn(async move {
        loop {
            // A client that only checked has disconnected already.
            let mut server = first.accept().await.unwrap();
            let _ = server.write_all(b"x").await;
        }
    });
    assert!(is_answered(&path));
    let upper = PathBuf::from(path.to_string_lossy().to_uppercase().replace('\\', "/"));
    for path in [&path, &upper] {
        assert_eq!(LocalListener::bind(path).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
    for _ in 0..20 {
        let mut client = connect(&path).await.unwrap();
        let received = timeout(Duration::from_secs(10), client.read_u8()).await.unwrap();
        assert_eq!(received.unwrap(), b'x');
    }
}

#[tokio::test]
async fn no_client_is_lost_when_an_accept_is_cancelled() {
    let path = place("given-up");
    let listener = LocalListener::bind(&path).unwrap();
    assert!(timeout(Duration::from_millis(50), listener.accept()).await.is_err());
    let mut client = connect(&path).await.unwrap();
    client.write_all(b"x").await.unwrap();
    let mut server = timeout(Duration::from_secs(10), listener.accept()).await.unwrap().unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'x');
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_waits_for_the_last_client_of_a_dead_listener() {
    let path = place("successor");
    let first = LocalListener::bind(&path).unwrap();
    let (client, server) = pair(&path, &first).await;
    drop((first, server));
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(client);
    });
    let second = LocalListener::bind(&path).unwrap();
    later.join().unwrap();
    pair(&path, &second).await;
}

#[test]
fn a_name_is_short_and_belongs_to_one_path() {
    let name = |path: &str| pipe_name(Path::new(path));
    let deep = format!(r"C:\{}\mcp.sock", "deep\\".repeat(200));
    assert!(name(&deep).len() < 100 && name(&deep).ends_with("-mcp"));
    assert_ne!(name(r"C:\a b\mcp.sock"), name(r"C:\a-b\mcp.sock"));
    assert_ne!(name(r"C:\a\mcp.sock"), name(r"C:\a\apps.sock"));
    assert_eq!(name(r"\\.\pipe\theirs"), r"\\.\pipe\theirs");
}
