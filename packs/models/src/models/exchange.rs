//! Requests to a provider: with which credential, when, how often, and the reading of the answer.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use toolyard_tool::Secret;
use toolyard_tool::host::{Limited, Permit};

use super::entry::Entry;
use super::{AFTER, Answered, Invocation, Models, Target};
use crate::conversation::{Reply, Turn};
use crate::http::{Incoming, Outgoing};
use crate::progress::Progress;
use crate::provider::{Auth, error_message};
use crate::sse::Events;
use crate::trouble::Trouble;

/// How often a request is sent if the server fails.
const ATTEMPTS: u32 = 2;
/// The wait before the second attempt; it doubles from then on.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The longest that one answer may take, however lively it is.
const LONGEST: Duration = Duration::from_mins(30);
const MOST_BYTES: usize = 32 << 20;
const MOST_ERROR: usize = 64 << 10;

/// Why a request failed, and whether a part of the answer was shown already.
pub(super) struct Failed {
    pub(super) trouble: Trouble,
    has_begun: bool,
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self { trouble, has_begun: false }
    }
}

impl Models {
    /// An answer of this model, after as many requests as the rules allow.
    pub(super) async fn exchange(
        &self,
        target: &Target<'_>,
        invocation: &Invocation,
        progress: &Progress,
    ) -> Result<Answered, Trouble> {
        let mut turn = invocation.turn.clone();
        target.id().clone_into(&mut turn.model);
        progress.show_text(!self.host.has_hooks(AFTER, target.model));
        let mut attempt = 1;
        loop {
            let (at, auth) = target.service.auth(&self.host).await?;
            let waits =
                |what: &str, ahead: usize| progress.note(format!("waiting for {what}: {ahead} ahead"));
            let held = self.shared_limits(target.model, progress).await?;
            let pass = self.gate.enter(target.model, &progress.context().turn(), waits).await?;
            let mut entry = Entry::open(self, target, invocation);
            let request = self.request(target, &auth, &turn, progress, &mut entry);
            let result = progress.during(target.model, request).await;
            drop((pass, held));
            entry.close(&result).await;
            let (trouble, has_begun) = match result {
                Ok(reply) => return Ok(answered(target, &auth, reply)),
                Err(Failed { trouble, has_begun }) => {
                    let headers = target.service.headers.values().map(Secret::expose);
                    (trouble.presentable(auth.secret().into_iter().chain(headers)), has_begun)
                }
            };
            if has_begun {
                return Err(trouble);
            }
            if trouble.is_rate_limit() && target.service.cool_down(at) {
                progress.note(format!(
                    "`{}` refused its {}; using the next credential",
                    target.service.name,
                    auth.name()
                ));
            } else if trouble.is_server_side() && attempt < ATTEMPTS {
                let wait = FIRST_WAIT * 2_u32.pow(attempt - 1);
                attempt += 1;
                progress.note(format!(
                    "`{}` {trouble}; trying again in {} s",
                    target.service.name,
                    wait.as_secs()
                ));
                sleep(wait).await;
            } else {
                return Err(trouble);
            }
        }
    }

    /// Permits of the limits that requests share with calls of tools.
    async fn shared_limits(&self, model: &str, progress: &Progress) -> Result<Vec<Permit>, Trouble> {
        let mut held = Vec::with_capacity(self.config.limits.len());
        for name in &self.config.limits {
            let limited =
                |why: Limited| Trouble::Limited { reason: why.to_string(), retry_after: why.retry_after() };
            let (waiting, limit) = (progress.clone(), name.clone());
            let report =
                move |ahead: usize| waiting.note(format!("waiting for the limit `{limit}`: {ahead} ahead"));
            let permit = self.host.limits_for(progress.context(), name, model, report);
            held.push(permit.await.map_err(limited)?);
        }
        Ok(held)
    }

    async fn request(
        &self,
        target: &Target<'_>,
        auth: &Auth,
        turn: &Turn,
        progress: &Progress,
        entry: &mut Entry<'_>,
    ) -> Result<Reply, Failed> {
        let kind = target.service.kind;
        let mut headers = kind.headers(auth);
        headers.extend(target.service.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let outgoing = Outgoing {
            url: kind.url(&target.service.base_url, turn),
            headers,
            body: kind.body(turn).to_string().into(),
        };
        let silent = |_| Trouble::Silent(self.silence);
        let incoming = timeout(self.silence, self.wire.post(outgoing)).await.map_err(silent)??;
        if !(200..300).contains(&incoming.status) {
            return Err(self.refusal(incoming).await.into());
        }
        self.read(target, incoming, progress, entry).await
    }

    async fn read(
        &self,
        target: &Target<'_>,
        incoming: Incoming,
        progress: &Progress,
        entry: &mut Entry<'_>,
    ) -> Result<Reply, Failed> {
        let (mut events, mut reader) = (Events::default(), target.service.kind.reader());
        let (mut bytes, mut has_begun) = (0, false);
        let mut chunks = incoming.chunks;
        let deadline = Instant::now() + LONGEST;
        loop {
            let fail = |trouble| Failed { trouble, has_begun };
            let next = timeout_at(deadline.min(Instant::now() + self.silence), chunks.next()).await;
            let data = match next.map_err(|_| fail(Trouble::Silent(self.silence)))? {
                Some(Ok(chunk)) => {
                    bytes += chunk.len();
                    if bytes > MOST_BYTES {
                        return Err(fail(Trouble::TooLarge(MOST_BYTES)));
                    }
                    events.push(&chunk).map_err(fail)?
                }
                Some(Err(_)) => return Err(fail(Trouble::Cut(bytes))),
                None => match events.finish() {
                    Some(last) => vec![last],
                    None => break,
                },
            };
            for data in data.iter().filter(|data| data.trim() != "[DONE]") {
                let event: Value = serde_json::from_str(data)
                    .map_err(|_| Failed { trouble: Trouble::Garbage(data.clone()), has_begun })?;
                let piece = reader.event(event).map_err(|trouble| Failed { trouble, has_begun })?;
                entry.usage = reader.usage();
                if let Some(piece) = piece {
                    has_begun = true;
                    progress.piece(&piece);
                }
            }
        }
        progress.flush();
        let reply = reader.finish().ok_or(Failed { trouble: Trouble::Cut(bytes), has_begun })?;
        if reply.text.is_empty() && reply.calls.is_empty() {
            let why = reply.stop.unwrap_or_else(|| "without a reason".into());
            return Err(Failed { trouble: Trouble::Empty(why), has_begun });
        }
        Ok(reply)
    }

    /// What a provider answered instead.
    async fn refusal(&self, incoming: Incoming) -> Trouble {
        let Incoming { status, retry_after, mut chunks } = incoming;
        let mut body = Vec::new();
        while let Ok(Some(Ok(chunk))) = timeout(self.silence, chunks.next()).await {
            body.extend_from_slice(&chunk);
            if body.len() > MOST_ERROR {
                break;
            }
        }
        let text = String::from_utf8_lossy(&body);
        let reported = serde_json::from_str(&text).ok().and_then(|body: Value| error_message(&body));
        let message = reported
            .unwrap_or_else(|| if text.contains('<') { "no reason".into() } else { text.trim().to_owned() });
        Trouble::Status { status, message, retry_after }
    }
}

fn answered(target: &Target<'_>, auth: &Auth, reply: Reply) -> Answered {
    let usage = reply.usage;
    Answered {
        usage,
        reply,
        provider: target.service.name.clone(),
        model: target.model.to_owned(),
        auth: auth.name(),
        cost: usage.and_then(|usage| target.settings?.cost(usage)),
    }
}
