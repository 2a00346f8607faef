//! The state that the functions of a set share: made once, passed by reference. It may be made on the first call, so
//! that listing tools costs nothing.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use toolyard_model::{BoxFuture, Scope};

use crate::ToolError;
use crate::run::reason;

/// The part of the set's state that a function needs: [`Nothing`], or a reference to it ([`Needs`]).
#[doc(hidden)]
pub trait Wanted: 'static {
    /// The type that it takes a reference to.
    type State;
    /// The handle that is held while the function runs.
    type Handle: Clone + Send + Sync + 'static;
}

/// A function without state.
#[doc(hidden)]
#[derive(Debug)]
pub struct Nothing;

/// A function that takes `&S`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Needs<S>(PhantomData<fn() -> S>);

impl Wanted for Nothing {
    type State = ();
    type Handle = ();
}

impl<S: Send + Sync + 'static> Wanted for Needs<S> {
    type State = S;
    type Handle = Arc<S>;
}

/// A set with this state can give a function what it needs; `T` is for the compiler's message if it cannot.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the set's state is `{Self}`, but the function takes `&{T}`",
    label = "this function cannot be served from this set",
    note = "call `.state(…)` with a value of that type before `.with::<…>()`; sets with different state are joined with `.join(…)`"
)]
pub trait Gives<T, W: Wanted>: Sized {
    /// The source of the function's state.
    fn source(held: &Held<Self>) -> Source<W>;
}

impl<S> Gives<(), Nothing> for S {
    fn source(_: &Held<Self>) -> Source<Nothing> {
        Source::Ready(())
    }
}

impl<S: Send + Sync + 'static> Gives<S, Needs<S>> for S {
    fn source(held: &Held<Self>) -> Source<Needs<S>> {
        match held {
            Held::Ready(state) => Source::Ready(state.clone()),
            Held::Later(later) => {
                let later = later.clone();
                Source::Later(Arc::new(move |scope| {
                    let (later, scope) = (later.clone(), scope.clone());
                    Box::pin(async move { later.get(&scope).await })
                }))
            }
        }
    }
}

/// The state of a set: there already, or made when it is first needed.
#[doc(hidden)]
pub enum Held<S> {
    /// There already.
    Ready(Arc<S>),
    /// Made by the first call; a failure is that call's answer, and the next one tries again.
    Later(Arc<Later<S>>),
}

/// State that is made on the first call.
#[doc(hidden)]
pub struct Later<S> {
    made: OnceLock<Arc<S>>,
    /// The latest attempt to make it.
    attempt: Mutex<Option<Attempt<S>>>,
    make: Box<dyn Fn() -> BoxFuture<Result<S, ToolError>> + Send + Sync>,
}

/// The result, once it has ended.
type Attempt<S> = watch::Receiver<Option<Result<Arc<S>, Failed>>>;

#[derive(Clone, Debug)]
enum Failed {
    Error(ToolError),
    Panicked(String),
}

/// The return type of a function that makes the state: a result, or a future of one. `How` only distinguishes the two.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "state cannot be made from `{Self}`",
    label = "expected a function or an `async` function that returns `Result<T, ToolError>`",
    note = "for state that is there already, use `.state(…)`; to make it at the first call, write \
            `.state_with(|| Ok(…))` or `.state_with(async || Ok(…))`"
)]
pub trait Loading<S, How>: Send + 'static {
    /// Whether the function that returns it may block.
    const BLOCKS: bool;

    /// The state.
    fn load(self) -> BoxFuture<Result<S, ToolError>>;
}

/// A plain function.
#[doc(hidden)]
#[derive(Debug)]
pub struct Plain;

/// An `async` function.
#[doc(hidden)]
#[derive(Debug)]
pub struct Async;

impl<S: Send + 'static> Loading<S, Plain> for Result<S, ToolError> {
    const BLOCKS: bool = true;

    fn load(self) -> BoxFuture<Self> {
        Box::pin(std::future::ready(self))
    }
}

#[diagnostic::do_not_recommend]
impl<S, M: Future<Output = Result<S, ToolError>> + Send + 'static> Loading<S, Async> for M {
    const BLOCKS: bool = false;

    fn load(self) -> BoxFuture<Result<S, ToolError>> {
        Box::pin(self)
    }
}

impl<S: Send + Sync + 'static> Held<S> {
    pub(crate) fn later<F, M, How>(make: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Loading<S, How>,
    {
        let make = Arc::new(make);
        let make = Box::new(move || -> BoxFuture<_> {
            let make = make.clone();
            if !M::BLOCKS {
                return make().load();
            }
            Box::pin(async move {
                match tokio::task::spawn_blocking(move || make()).await {
                    Ok(loading) => loading.load().await,
                    Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                    Err(_) => Err(ToolError::new("the server is shutting down")),
                }
            })
        });
        Self::Later(Arc::new(Later { made: OnceLock::new(), attempt: Mutex::default(), make }))
    }
}

impl<S: Send + Sync + 'static> Later<S> {
    /// The first caller has it created, in a separate task: a cancelled call does not stop it.
    async fn get(self: &Arc<Self>, scope: &Scope) -> Result<Arc<S>, ToolError> {
        if let Some(made) = self.made.get() {
            return Ok(made.clone());
        }
        let mut attempt = self.attempt(scope);
        let outcome = attempt.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        match outcome {
            Some(Ok(made)) => Ok(made),
            Some(Err(Failed::Error(error))) => Err(error),
            // The caller reports the panic with the tool's name.
            Some(Err(Failed::Panicked(text))) => resume_unwind(Box::new(text)),
            None => Err(ToolError::new("the server is shutting down")),
        }
    }

    /// The current attempt, or a new one if there is none or it failed.
    fn attempt(self: &Arc<Self>, scope: &Scope) -> Attempt<S> {
        let mut latest = self.attempt.lock();
        if let Some(attempt) = latest.as_ref().filter(|attempt| is_worth_waiting_for(attempt)) {
            return attempt.clone();
        }
        let (sender, attempt) = watch::channel(None);
        let later = self.clone();
        scope.spawn(async move {
            let making = AssertUnwindSafe(async { (later.make)().await }).catch_unwind();
            let outcome = match making.await {
                Ok(made) => made.map(Arc::new).map_err(Failed::Error),
                Err(panic) => Err(Failed::Panicked(reason(panic.as_ref()).to_owned())),
            };
            if let Ok(made) = &outcome {
                // Only this task makes it now.
                let _ = later.made.set(made.clone());
            }
            sender.send_replace(Some(outcome));
        });
        latest.insert(attempt).clone()
    }
}

/// Not one that has failed or was dropped.
fn is_worth_waiting_for<S>(attempt: &Attempt<S>) -> bool {
    match &*attempt.borrow() {
        Some(outcome) => outcome.is_ok(),
        None => attempt.has_changed().is_ok(),
    }
}

/// Makes it in a scope, unless it has been made by now.
type MakeState<H> = Arc<dyn Fn(&Scope) -> BoxFuture<Result<H, ToolError>> + Send + Sync>;

/// The source of a function's state when it is called.
#[doc(hidden)]
pub enum Source<W: Wanted> {
    /// There already.
    Ready(W::Handle),
    /// It may have to be made first.
    Later(MakeState<W::Handle>),
}

impl<W: Wanted> Source<W> {
    /// State that has to be made first is made in `scope`.
    pub(crate) async fn get(&self, scope: &Scope) -> Result<W::Handle, ToolError> {
        match self {
            Self::Ready(handle) => Ok(handle.clone()),
            Self::Later(make) => make(scope).await,
        }
    }
}

impl<S> std::fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl<S> std::fmt::Debug for Later<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
    }
}

impl<W: Wanted> std::fmt::Debug for Source<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}
