//! The commands that manage a config and use what it describes, each in a file of its own.

mod add;
mod remove;
mod list;
mod cluster;
mod get;
mod tools;
mod import;
mod install;
mod join;
mod uninstall;
mod trust;
mod pack;
mod openapi;
mod described;
mod run;
mod doctor;
mod explain;
mod hook;
mod completions;
mod token;
mod schema;
mod secret;
mod ui;
mod audit;
mod edit;
mod live;
mod login;
mod manage;
mod logs;
mod gateways;
mod service;
mod approve;
mod lock;

use clap::Subcommand;

use crate::cli::Common;
use crate::failure::Failure;

pub(crate) use add::{Drafted, draft_server};
pub(crate) use completions::{answer_shell, profiles, servers};
pub(crate) use live::{answers, running};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a server to the config.
    Add(add::AddArgs),
    /// Remove a server from the config.
    #[command(alias = "rm")]
    Remove(remove::RemoveArgs),
    /// List servers, packs, apps and instances with their status.
    #[command(aliases = ["ls", "status"])]
    List(list::ListArgs),
    /// Show one server of the config with its status.
    Get(get::GetArgs),
    /// Switch a server or pack of the running gateway on.
    Enable(manage::NameArgs),
    /// Switch a server or pack of the running gateway off, until it is enabled or the gateway is restarted.
    Disable(manage::NameArgs),
    /// Restart a server or pack of the running gateway.
    Restart(manage::NameArgs),
    /// Approve a call or a changed tool, or show what waits for approval.
    Approve(approve::ApproveArgs),
    /// Deny a call that waits for approval.
    Deny(approve::DenyArgs),
    /// Write the tools of the servers in a config to the lock file beside it.
    Lock(lock::LockArgs),
    /// Show the nodes of the cluster and what they own.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Join a team's cluster, and show it only the upstreams that are named.
    Join(join::JoinArgs),
    /// Stop the running gateway.
    Stop,
    /// List the gateways of this user that run, with their config and address.
    Gateways(gateways::GatewaysArgs),
    /// Show what servers wrote to stderr, their calls and changes of state.
    Logs(logs::LogsArgs),
    /// Run the gateway as a service of this user, started at login.
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// Sign in at a server that requires OAuth.
    Login(login::LoginArgs),
    /// Sign out of a server and forget its tokens.
    Logout(login::LogoutArgs),
    /// Show and call the tools of all servers.
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Import servers from other clients.
    Import(import::ImportArgs),
    /// Add Toolyard to the config of a client.
    Install(install::InstallArgs),
    /// Remove Toolyard from the config of a client.
    Uninstall(uninstall::UninstallArgs),
    /// Trust this project's `toolyard.toml` in its current form, or let packs run programs of a project.
    Trust(trust::TrustArgs),
    /// Serve one pack alone, on stdio or at the addresses of its flags.
    Pack(pack::PackArgs),
    /// Serve the operations of an OpenAPI description as tools, on stdio.
    Openapi(openapi::OpenapiArgs),
    /// Run a script of the project in this folder, or list its scripts.
    Run(run::RunArgs),
    /// Find problems and report how to fix them.
    Doctor(doctor::DoctorArgs),
    /// Explain why a tool is listed, and under which name, or why it is not.
    Explain(explain::ExplainArgs),
    /// Run the hooks of the gateway for a client: its JSON on stdin, exit status 0, 1 or 2.
    Hook(hook::HookArgs),
    /// Make a token for an app or a client, or the secret that tokens are made from.
    Token(token::TokenArgs),
    /// Store secrets for configs, which refer to them as `${secret:NAME}`.
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Search, follow, export and verify the records of calls.
    Audit(audit::AuditArgs),
    /// Open the dashboard of the running gateway in a browser.
    Ui(ui::UiArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Print the JSON Schema of the config, for editors.
    Schema,
}

pub(crate) fn run(common: &Common, command: Command) -> Result<(), Failure> {
    match command {
        Command::Add(args) => add::add(common, &args),
        Command::Remove(args) => remove::remove(common, &args),
        Command::List(args) => list::list(common, &args),
        Command::Get(args) => get::get(common, &args),
        Command::Enable(args) => manage::enable(common, &args),
        Command::Disable(args) => manage::disable(common, &args),
        Command::Restart(args) => manage::restart(common, &args),
        Command::Approve(args) => approve::approve(common, &args),
        Command::Deny(args) => approve::deny(common, &args),
        Command::Lock(args) => lock::lock(common, &args),
        Command::Cluster(command) => cluster::cluster(common, &command),
        Command::Join(args) => join::join(common, &args),
        Command::Stop => manage::stop(common),
        Command::Gateways(args) => gateways::gateways(&args),
        Command::Logs(args) => logs::logs(common, &args),
        Command::Service(command) => service::service(common, &command),
        Command::Login(args) => login::login(common, &args),
        Command::Logout(args) => login::logout(common, &args),
        Command::Tools(command) => tools::tools(common, command),
        Command::Import(args) => import::import(common, &args),
        Command::Install(args) => install::install(common, &args),
        Command::Uninstall(args) => uninstall::uninstall(&args),
        Command::Trust(args) => trust::trust(common, &args),
        Command::Pack(args) => pack::pack(common, args),
        Command::Openapi(args) => openapi::openapi(&args),
        Command::Run(args) => run::run(common, &args),
        Command::Doctor(args) => doctor::doctor(common, &args),
        Command::Explain(args) => explain::explain(common, &args),
        Command::Hook(args) => hook::hook(common, &args),
        Command::Token(args) => token::token(common, &args),
        Command::Secret(command) => secret::secret(command),
        Command::Audit(args) => audit::audit(common, &args),
        Command::Ui(args) => ui::ui(common, &args),
        Command::Schema => schema::schema(),
        Command::Completions(args) => completions::completions(&args),
    }
}
