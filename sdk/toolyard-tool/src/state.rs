//! What the functions of a set share: made once, passed by reference. It may be made on the first call, so
//! that listing tools costs nothing.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use tokio::sync::OnceCell;
use toolyard_transport::BoxFuture;

use crate::ToolError;

/// What a function wants of the set's state: [`Nothing`], or a reference to it ([`Needs`]).
#[doc(hidden)]
pub trait Wanted: 'static {
    /// What is held while the function runs.
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
    type Handle = ();
}

impl<S: Send + Sync + 'static> Wanted for Needs<S> {
    type Handle = Arc<S>;
}

/// A set with this state can give a function what it wants.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the set's state is `{Self}`, but the function takes a reference to another type: `{W}`",
    label = "this function cannot be served from this set",
    note = "call `.state(…)` with a value of that type before `.with::<…>()`; sets with different state are joined with `.join(…)`"
)]
pub trait Gives<W: Wanted>: Sized {
    /// Where the function gets it from.
    fn source(held: &Held<Self>) -> Source<W>;
}

impl<S> Gives<Nothing> for S {
    fn source(_: &Held<Self>) -> Source<Nothing> {
        Source::Ready(())
    }
}

impl<S: Send + Sync + 'static> Gives<Needs<S>> for S {
    fn source(held: &Held<Self>) -> Source<Needs<S>> {
        match held {
            Held::Ready(state) => Source::Ready(state.clone()),
            Held::Later(later) => {
                let later = later.clone();
                Source::Later(Arc::new(move || {
                    let later = later.clone();
                    Box::pin(async move { later.get().await })
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
    cell: OnceCell<Arc<S>>,
    make: Box<dyn Fn() -> BoxFuture<Result<S, ToolError>> + Send + Sync>,
}

impl<S: Send + Sync + 'static> Held<S> {
    pub(crate) fn later<F, M>(make: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = Result<S, ToolError>> + Send + 'static,
    {
        let make = Box::new(move || -> BoxFuture<_> { Box::pin(make()) });
        Self::Later(Arc::new(Later { cell: OnceCell::new(), make }))
    }
}

impl<S> Later<S> {
    async fn get(&self) -> Result<Arc<S>, ToolError> {
        let made = self.cell.get_or_try_init(|| async { (self.make)().await.map(Arc::new) }).await;
        made.cloned()
    }
}

/// Where a function gets its state from when it is called.
#[doc(hidden)]
pub enum Source<W: Wanted> {
    /// There already.
    Ready(W::Handle),
    /// Perhaps it has to be made first.
    Later(Arc<dyn Fn() -> BoxFuture<Result<W::Handle, ToolError>> + Send + Sync>),
}

impl<W: Wanted> Source<W> {
    pub(crate) async fn get(&self) -> Result<W::Handle, ToolError> {
        match self {
            Self::Ready(handle) => Ok(handle.clone()),
            Self::Later(make) => make().await,
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
