//! A set of tools: everything that one server, or one pack, offers.

mod items;
mod live;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use toolyard_proto::Raw;

use crate::changes::Changes;
use crate::context::Surroundings;
use crate::host::Host;
use crate::item::Item;
use crate::seal::Seal;
use crate::state::{Gives, Held, Loading, Wanted};
use crate::tasks::{TaskRunner, Tasks};
use crate::{Context, Skill, ToolError, skills};

pub use items::Taken;
pub use live::Live;
pub(crate) use live::Offer;

/// The tools, prompts and resources of a server or a pack, listed explicitly. It answers requests by itself: serve it
/// on any transport with [`serve`](crate::serve), or put it into a gateway with [`ToolSet::connect`].
///
/// ```
/// use toolyard_tool::{ToolSet, tool};
///
/// struct Greeting(String);
///
/// /// Greets the caller.
/// #[tool(read_only)]
/// async fn greet(greeting: &Greeting) -> String {
///     format!("{}!", greeting.0)
/// }
///
/// let set = ToolSet::new("greeter", "1.0.0")
///     .instructions("Call `greet` first.")
///     .state(Greeting("Hello".into()))
///     .with::<greet>();
/// assert_eq!(set.tool_names().collect::<Vec<_>>(), ["greet"]);
/// ```
pub struct ToolSet<S = ()> {
    pub(crate) about: About,
    held: Held<S>,
    pub(crate) offer: Arc<Offer>,
    pub(crate) tasks: Tasks,
    pub(crate) surroundings: Arc<Surroundings>,
}

/// The server's name, version and description, as published to clients.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) name: Arc<str>,
    version: String,
    title: Option<String>,
    icons: Vec<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) proof: Proof,
    pub(crate) skills: Option<skills::SkillSource>,
    info: OnceLock<Raw>,
    /// The same, in the form that answers of tools are written with.
    written: OnceLock<Arc<RawValue>>,
}

/// Which calls need a connection that proves its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Never,
    /// Those of tools that are not read-only, unless the user sets this.
    ToChange {
        switch: &'static str,
    },
    Always,
}

impl About {
    /// `serverInfo`.
    pub(crate) fn info(&self) -> &Raw {
        self.info.get_or_init(|| {
            let mut info = json!({ "name": &*self.name });
            if let Some(title) = &self.title {
                info["title"] = title.as_str().into();
            }
            info["version"] = self.version.as_str().into();
            if !self.icons.is_empty() {
                info["icons"] = self.icons.iter().map(|src| json!({ "src": src })).collect();
            }
            info.into()
        })
    }

    pub(crate) fn written(&self) -> Option<Arc<RawValue>> {
        if let Some(written) = self.written.get() {
            return Some(written.clone());
        }
        // Texts in an object can always be written.
        let written = to_raw_value(self.info()).ok()?;
        Some(self.written.get_or_init(|| written.into()).clone())
    }
}

impl ToolSet<()> {
    /// An empty set. Clients receive the name and version as those of the server.
    pub fn new(name: &str, version: &str) -> Self {
        let name: Arc<str> = name.into();
        let surroundings = Arc::new(Surroundings::new(name.clone()));
        let offer = Arc::new(Offer::new(surroundings.changes.clone()));
        let runner = TaskRunner { offer: offer.clone(), set: Arc::downgrade(&surroundings) };
        Self {
            about: About {
                name,
                version: version.to_owned(),
                title: None,
                icons: Vec::new(),
                instructions: None,
                proof: Proof::Never,
                skills: None,
                info: OnceLock::new(),
                written: OnceLock::new(),
            },
            held: Held::Ready(Arc::new(())),
            offer,
            tasks: Tasks::new(surroundings.scope.clone(), surroundings.changes.clone(), runner),
            surroundings,
        }
    }
}

impl<S: Send + Sync + 'static> ToolSet<S> {
    /// The title of the server, for people.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.about.title = Some(title.to_owned());
        self
    }

    /// An image of the server, as an `https:` or `data:` URI. Can be called again for other sizes and kinds: a client
    /// learns from the image itself what it is.
    ///
    /// ```
    /// use toolyard_tool::ToolSet;
    ///
    /// let set = ToolSet::new("clock", "1.0.0").icon("https://example.org/clock.svg");
    /// ```
    #[must_use]
    pub fn icon(mut self, src: &str) -> Self {
        self.about.icons.push(src.to_owned());
        self
    }

    /// Instructions for models that use the server.
    #[must_use]
    pub fn instructions(mut self, text: &str) -> Self {
        self.about.instructions = Some(text.to_owned());
        self
    }

    /// Answers calls only on connections that prove their user ([`Context::is_proven`](crate::Context::is_proven)): for
    /// tools that run programs, spend money or read private files.
    ///
    /// ```
    /// use toolyard_tool::ToolSet;
    ///
    /// let set = ToolSet::new("shell", "1.0.0").proven_users_only();
    /// ```
    #[must_use]
    pub fn proven_users_only(mut self) -> Self {
        self.about.proof = Proof::Always;
        self
    }

    /// Calls tools that are not `read_only` only on connections that prove their user
    /// ([`Context::is_proven`](crate::Context::is_proven)): for tools that change the user's files. `switch` is what a
    /// user can set to lift this, such as a key of the pack's config; refusals name it.
    ///
    /// ```
    /// use toolyard_tool::ToolSet;
    ///
    /// let set = ToolSet::new("notes", "1.0.0").proven_writers_only("`unproven_writes = true`");
    /// ```
    #[must_use]
    pub fn proven_writers_only(mut self, switch: &'static str) -> Self {
        self.about.proof = Proof::ToChange { switch };
        self
    }

    /// Serves skills by the protocol's extension: `list` is asked whenever a client lists or reads them.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolyard_tool::{Skill, ToolSet};
    ///
    /// let set = ToolSet::new("papers", "1.0.0").skills(async |_| {
    ///     let front = json!({ "name": "pdf", "description": "Reads papers" });
    ///     let text = "---\nname: pdf\ndescription: Reads papers\n---\nOpen the file.";
    ///     Ok(vec![Skill::new("pdf", front.as_object().unwrap().clone(), text)])
    /// });
    /// ```
    #[must_use]
    pub fn skills<F>(mut self, list: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<Skill>, ToolError>> + Send + 'static,
    {
        self.about.skills = Some(skills::SkillSource::new(list));
        self
    }

    /// The key that seals the state which clients carry between the rounds of a call
    /// ([`Context::questions`](crate::Context::questions)). Without one it is random, which is right unless
    /// several processes serve the set together, or a call should outlive a restart.
    #[must_use]
    pub fn seal_key(self, key: &[u8]) -> Self {
        // A key that was given before, or has been used already, stays.
        let _ = self.surroundings.seal.set(Seal::new(key));
        self
    }

    /// The state of everything added from here on: a function gets it by taking `&T`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(self, state: T) -> ToolSet<T> {
        self.holding(Held::Ready(Arc::new(state)))
    }

    /// State that is made by the first call that needs it, so that starting and listing cost nothing. `make` is a
    /// function or an `async` function that returns `Result<T, ToolError>`. If it fails, that call fails with the
    /// reason, and the next one tries again.
    ///
    /// ```
    /// use toolyard_tool::{ToolError, ToolSet};
    ///
    /// struct Index(Vec<String>);
    ///
    /// async fn load() -> Result<Index, ToolError> {
    ///     Ok(Index(vec!["a".into()]))
    /// }
    ///
    /// let set = ToolSet::new("search", "1.0.0").state_with(load);
    /// ```
    #[must_use]
    pub fn state_with<T, F, M, How>(self, make: F) -> ToolSet<T>
    where
        T: Send + Sync + 'static,
        F: Fn() -> M + Send + Sync + 'static,
        M: Loading<T, How>,
    {
        self.holding(Held::later(make))
    }

    /// The background work of this host ends with the set, and calls reach the host.
    pub(crate) fn hosted(self, host: &Host) -> Self {
        let _ = self.surroundings.host.set(host.clone());
        self.tasks.store_in(host.tasks());
        self
    }

    fn holding<T>(self, held: Held<T>) -> ToolSet<T> {
        let Self { about, offer, tasks, surroundings, .. } = self;
        ToolSet { about, held, offer, tasks, surroundings }
    }

    /// Adds a function under `#[tool]`, by its name: a tool, a prompt, a resource or a completion.
    ///
    /// Without `#[tool]` the compiler reports "constant provided when a type was expected" (E0747): the
    /// attribute is missing.
    ///
    /// # Panics
    /// If the set has something of that name already, or if a schema is invalid (arguments that are not a
    /// struct, a pattern that is not a regular expression): such a set must not be served.
    #[must_use]
    pub fn with<I: Item>(self) -> Self
    where
        S: Gives<<I::Wants as Wanted>::State, I::Wants>,
    {
        let entry = I::entry(S::source(&self.held));
        self.offer.change(|items| items.add(entry)).unwrap_or_else(|taken| panic!("{taken}"));
        self
    }

    /// Adds everything that another set offers. Functions of that set keep their own state.
    ///
    /// # Panics
    /// If both have something of the same name.
    ///
    /// ```
    /// use toolyard_tool::{ToolSet, tool};
    ///
    /// struct Clock;
    /// struct Lamp;
    ///
    /// /// Returns the time.
    /// #[tool]
    /// async fn time(_: &Clock) -> &'static str {
    ///     "noon"
    /// }
    ///
    /// /// Turns the lamp on.
    /// #[tool]
    /// async fn light(_: &Lamp) {}
    ///
    /// let clock = ToolSet::new("clock", "1.0.0").state(Clock).with::<time>();
    /// let house = ToolSet::new("house", "1.0.0").state(Lamp).with::<light>().join(clock);
    /// assert_eq!(house.tool_names().collect::<Vec<_>>(), ["light", "time"]);
    /// ```
    #[must_use]
    pub fn join<T>(self, other: ToolSet<T>) -> Self {
        let ToolSet { offer, .. } = other;
        let others = offer.items();
        self.offer.change(|items| items.join(&others)).unwrap_or_else(|taken| panic!("{taken}"));
        self
    }

    /// Lists only these tools. The others can be called all the same, and a gateway finds them by search: a long list
    /// costs every conversation of a model.
    ///
    /// ```
    /// use toolyard_tool::{ToolSet, tool};
    ///
    /// /// Opens the door.
    /// #[tool]
    /// async fn open_door() {}
    ///
    /// /// Oils the hinges.
    /// #[tool]
    /// async fn oil_hinges() {}
    ///
    /// let set = ToolSet::new("house", "1.0.0").with::<open_door>().with::<oil_hinges>().list_only(&["open_door"]);
    /// assert_eq!(set.tool_names().collect::<Vec<_>>(), ["open_door", "oil_hinges"]);
    /// ```
    #[must_use]
    pub fn list_only(self, tools: &[&'static str]) -> Self {
        let listed = tools.into();
        let change = self.offer.change(|items| {
            items.listed = Some(listed);
            Ok(())
        });
        change.unwrap_or_else(|taken| panic!("{taken}"));
        self
    }

    /// The handle that changes what the set offers while it is served. A set that has given one out declares
    /// to clients that everything in it may change.
    pub fn live(&self) -> Live {
        Live::new(self.offer.clone())
    }

    /// The names of its tools, in order.
    pub fn tool_names(&self) -> impl Iterator<Item = &'static str> + use<S> {
        self.offer.items().tool_names().into_iter()
    }

    /// The definition of a tool, as clients see it.
    pub fn definition(&self, tool: &str) -> Option<Value> {
        self.offer.items().tool(tool)?.definition.read().ok()
    }

    /// Announces changes to listening clients.
    pub fn changes(&self) -> Changes {
        self.surroundings.changes.clone()
    }

    /// Ends tasks and waits for blocking functions that are still running. Bound it with a timeout: a thread
    /// cannot be stopped from outside.
    pub async fn end(&self) {
        if let Some(host) = self.surroundings.host.get() {
            host.scope().end().await;
        }
        self.tasks.end().await;
        self.surroundings.threads.end().await;
    }
}

impl<S> fmt::Debug for ToolSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSet")
            .field("name", &self.about.name)
            .field("items", &self.offer.items())
            .finish_non_exhaustive()
    }
}
