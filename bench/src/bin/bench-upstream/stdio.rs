//! Newline-delimited JSON-RPC on stdin and stdout.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::message;
use crate::server::{Answer, Server};

pub(crate) async fn serve(server: Arc<Server>, churn_ms: Option<NonZeroU64>) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel(1024);
    let tasks = TaskTracker::new();
    let writer = tasks.spawn(write(receiver));
    if let Some(pause) = churn_ms {
        tasks.spawn(churn(server.clone(), Duration::from_millis(pause.get()), sender.downgrade()));
    }
    let mut input = BufReader::with_capacity(1 << 16, tokio::io::stdin());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).await? > 0 {
        if !line.trim_ascii().is_empty() {
            respond(server.answer(&line, None, || Ok(())), &sender, &tasks).await;
        }
        line.clear();
    }
    drop(sender);
    writer.await?
}

/// Changes the list of tools and announces it, as long as there is a client.
async fn churn(server: Arc<Server>, pause: Duration, sender: mpsc::WeakSender<String>) {
    loop {
        tokio::time::sleep(pause).await;
        server.change();
        let Some(sender) = sender.upgrade() else { return };
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        if sender.send(changed.to_owned()).await.is_err() {
            return;
        }
    }
}

async fn respond(answer: Answer, sender: &mpsc::Sender<String>, tasks: &TaskTracker) {
    // A send fails only after stdout is gone, and then the writer's error ends the program.
    match answer {
        Answer::Nothing => {}
        Answer::Now { body, .. } | Answer::Welcome { body } | Answer::Listen { first: body } => {
            let _ = sender.send(body).await;
        }
        Answer::Later { wait, body } => {
            let sender = sender.clone();
            tasks.spawn(async move {
                tokio::time::sleep(wait).await;
                sender.send(body).await
            });
        }
        Answer::Progress { count, pause, token, body } => {
            let sender = sender.clone();
            tasks.spawn(async move {
                for step in 1..=count {
                    sender.send(message::progress(&token, step, count)).await?;
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                }
                sender.send(body).await
            });
        }
    }
}

/// Writes what is waiting in one go, so that a burst costs one system call.
async fn write(mut receiver: mpsc::Receiver<String>) -> std::io::Result<()> {
    let mut output = tokio::io::stdout();
    let mut waiting = Vec::new();
    let mut buffer = Vec::new();
    while receiver.recv_many(&mut waiting, 256).await > 0 {
        buffer.clear();
        for message in waiting.drain(..) {
            buffer.extend_from_slice(message.as_bytes());
            buffer.push(b'\n');
        }
        output.write_all(&buffer).await?;
        output.flush().await?;
    }
    Ok(())
}
