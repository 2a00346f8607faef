//! Runs the functions of a set: async functions in place, blocking functions on threads for blocking work. A function
//! that panics fails only its own call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use toolyard_model::BoxFuture;

use crate::state::{Source, Wanted};
use crate::threads::Threads;
use crate::{Context, ToolError};

/// A function with its arguments, ready to run.
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

/// The function in the form that the attribute passes it.
#[doc(hidden)]
pub type Call<W, A, O> = fn(<W as Wanted>::Handle, Context, A) -> Run<Result<O, ToolError>>;

/// A type-erased function of a set.
pub(crate) type Runner<I, R> = Arc<dyn Fn(I, Context) -> BoxFuture<Result<R, ToolError>> + Send + Sync>;

/// Erases the types of a function: `read` makes its arguments, `finish` its result. A panic in any part, including
/// checks and the creation of state, fails only this call, with an error that contains `name`.
pub(crate) fn runner<W, I, A, O, R>(
    name: &'static str,
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
        let running = async move {
            let (source, read, finish) = &*shared;
            let arguments = read(input)?;
            let set = context.set().clone();
            let handle = source.get(&set.scope).await?;
            finish(run::<W, A, O>(call, handle, context, arguments, &set.threads).await?)
        };
        let settled = move |ended: Result<Result<R, ToolError>, Box<dyn Any + Send>>| {
            let ended = ended.unwrap_or_else(|panic| Err(stopped(name, panic.as_ref())));
            ended.inspect_err(
                |error| tracing::info!(target: "tools", name, error = ?error.log_message(), "failed"),
            )
        };
        Box::pin(AssertUnwindSafe(running).catch_unwind().map(settled))
    })
}

async fn run<W: Wanted, A, O: Send + 'static>(
    call: Call<W, A, O>,
    handle: W::Handle,
    context: Context,
    arguments: A,
    threads: &Threads,
) -> Result<O, ToolError> {
    match call(handle, context, arguments) {
        Run::Async(future) => future.await,
        Run::Blocking(function) => match threads.run(function).await? {
            Ok(output) => output,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(ToolError::new("the server is shutting down")),
        },
    }
}

fn stopped(name: &str, panic: &(dyn Any + Send)) -> ToolError {
    let text = reason(panic);
    tracing::error!(name, panic = text, "a function of a tool set panicked");
    ToolError::broken(format!("`{name}` panicked: {text}"))
        .hint("this is a defect of the tool, not of the call")
}

/// The message of a panic.
pub(crate) fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
