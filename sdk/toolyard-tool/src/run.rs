//! Runs a function: async ones where they are, blocking ones on threads made for that. A function that
//! panics fails its own call and nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio_util::task::TaskTracker;
use toolyard_transport::BoxFuture;

use crate::state::{Source, Wanted};
use crate::{Context, ToolError};

/// A function with its arguments, ready to go.
#[doc(hidden)]
pub enum Run<T> {
    /// An `async fn`.
    Async(BoxFuture<T>),
    /// A plain `fn`, which may block.
    Blocking(Box<dyn FnOnce() -> T + Send>),
}

impl<T> std::fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Run")
    }
}

/// How the attribute hands a function over.
#[doc(hidden)]
pub type Call<W, A, O> = fn(<W as Wanted>::Handle, Context, A) -> Run<Result<O, ToolError>>;

/// A function of a set, with its types forgotten.
pub(crate) type Runner<I, R> = Arc<dyn Fn(I, Context) -> BoxFuture<Result<R, ToolError>> + Send + Sync>;

/// Forgets the types: `read` makes the arguments, `finish` the result.
pub(crate) fn runner<W, I, A, O, R>(
    source: Source<W>,
    call: Call<W, A, O>,
    read: impl Fn(I) -> Result<A, ToolError> + Send + Sync + 'static,
    finish: impl Fn(O) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Runner<I, R>
where
    W: Wanted,
    I: Send + 'static,
    A: Send + 'static,
    O: Send + 'static,
    R: Send + 'static,
{
    let shared = Arc::new((source, read, finish));
    Arc::new(move |input, context| {
        let shared = shared.clone();
        Box::pin(async move {
            let (source, read, finish) = &*shared;
            let arguments = read(input)?;
            let handle = source.get().await?;
            let threads = context.threads().clone();
            // Only the function itself may panic without harm, so only it is caught.
            finish(run::<W, A, O>(call, handle, context, arguments, &threads).await?)
        })
    })
}

async fn run<W: Wanted, A, O: Send + 'static>(
    call: Call<W, A, O>,
    handle: W::Handle,
    context: Context,
    arguments: A,
    threads: &TaskTracker,
) -> Result<O, ToolError> {
    match call(handle, context, arguments) {
        Run::Async(future) => {
            AssertUnwindSafe(future).catch_unwind().await.unwrap_or_else(|panic| Err(stopped(panic.as_ref())))
        }
        Run::Blocking(function) => match threads.spawn_blocking(function).await {
            Ok(output) => output,
            Err(error) if error.is_panic() => Err(stopped(error.into_panic().as_ref())),
            Err(_) => Err(ToolError::new("the server is shutting down")),
        },
    }
}

fn stopped(panic: &(dyn Any + Send)) -> ToolError {
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    tracing::error!(panic = text, "a tool panicked");
    ToolError::new(format!("the tool broke down: {text}"))
        .hint("this is a defect of the tool, not of the call")
}
