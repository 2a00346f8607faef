//! Apps that connect to the gateway. An app registers its tools, and is an upstream of the catalog from then on,
//! with the same life cycle, steps and lists as any other. When it reconnects, its link is handed to its existing seat.

mod channel;
mod conversation;
mod listener;
mod link;
mod process;
mod queue;
mod reach;
mod refusals;
mod register;
mod report;
mod schema;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolyard_model::signed::Signed;
use toolyard_proto::codec::MAX_MESSAGE;

pub use process::Process;
pub use reach::{Dial, Source, away_hint};
pub use register::{AppRecord, AppStatus};
pub use schema::check as check_schema;

use crate::plan::Timeouts;
use crate::{Gateway, Scope};
use refusals::{FirstLines, RefusalLog};
use register::RegisteredApp;

/// How many connections beyond the limit receive a refusal at the same time; the rest are closed without one.
const REFUSALS: usize = 64;

/// The limits and rules for apps.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// How many may be connected at the same time.
    pub connections: usize,
    /// How many calls an app may have under way; more wait for their turn.
    pub calls: usize,
    /// How many calls may wait for their turn at one app; more are refused.
    pub queue: usize,
    pub timeouts: Timeouts,
    /// Whether apps must present tokens.
    pub signed: Option<Signed>,
    /// Whether a token may have another client id than the app's name.
    pub any_client_id: bool,
    /// How long connecting may take, and how long a connection may take to register.
    pub patience: Duration,
    /// The longest line.
    pub line_limit: usize,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            connections: 256,
            calls: 1024,
            queue: 1024,
            timeouts: Timeouts::LOCAL,
            signed: None,
            any_client_id: false,
            patience: Duration::from_secs(10),
            line_limit: MAX_MESSAGE,
        }
    }
}

/// Everything that is known of apps. Cheap to clone.
#[derive(Clone)]
pub struct Apps {
    shared: Arc<AppsState>,
}

struct AppsState {
    gateway: Gateway,
    options: AppOptions,
    scope: Scope,
    /// By the folded id.
    entries: Mutex<HashMap<String, RegisteredApp>>,
    /// The last correlation id; one sequence for the whole gateway.
    last_id: Arc<AtomicI64>,
    seats: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    first_lines: Arc<FirstLines>,
    refusal_log: RefusalLog,
    /// Refused apps without a valid token.
    auth_log: RefusalLog,
}

impl Apps {
    pub fn new(gateway: Gateway, options: AppOptions, scope: &Scope) -> Self {
        let seats = Arc::new(Semaphore::new(options.connections));
        let shared = Arc::new(AppsState {
            gateway,
            options,
            scope: scope.child(),
            entries: Mutex::default(),
            last_id: Arc::default(),
            seats,
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            first_lines: Arc::default(),
            refusal_log: RefusalLog::default(),
            auth_log: RefusalLog::default(),
        });
        report::add_apps(&shared);
        Self { shared }
    }

    /// The timeouts of calls to apps and to other discovered programs.
    pub fn timeouts(&self) -> Timeouts {
        self.shared.options.timeouts
    }
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Apps")
    }
}
