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
pub(crate) enum OtherCommand {
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
    /// Show the nodes of the cluster, or the records of their calls.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Join a team's cluster, and export only the named upstreams.
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
    /// Sign out of a server and delete its tokens.
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

pub(crate) fn run(common: &Common, command: OtherCommand) -> Result<(), Failure> {
    match command {
        OtherCommand::Add(args) => add::add(common, &args),
        OtherCommand::Remove(args) => remove::remove(common, &args),
        OtherCommand::List(args) => list::list(common, &args),
        OtherCommand::Get(args) => get::get(common, &args),
        OtherCommand::Enable(args) => manage::enable(common, &args),
        OtherCommand::Disable(args) => manage::disable(common, &args),
        OtherCommand::Restart(args) => manage::restart(common, &args),
        OtherCommand::Approve(args) => approve::approve(common, &args),
        OtherCommand::Deny(args) => approve::deny(common, &args),
        OtherCommand::Lock(args) => lock::lock(common, &args),
        OtherCommand::Cluster(command) => cluster::cluster(common, &command),
        OtherCommand::Join(args) => join::join(common, &args),
        OtherCommand::Stop => manage::stop(common),
        OtherCommand::Gateways(args) => gateways::gateways(&args),
        OtherCommand::Logs(args) => logs::logs(common, &args),
        OtherCommand::Service(command) => service::service(common, &command),
        OtherCommand::Login(args) => login::login(common, &args),
        OtherCommand::Logout(args) => login::logout(common, &args),
        OtherCommand::Tools(command) => tools::tools(common, command),
        OtherCommand::Import(args) => import::import(common, &args),
        OtherCommand::Install(args) => install::install(common, &args),
        OtherCommand::Uninstall(args) => uninstall::uninstall(&args),
        OtherCommand::Trust(args) => trust::trust(common, &args),
        OtherCommand::Pack(args) => pack::pack(common, args),
        OtherCommand::Openapi(args) => openapi::openapi(&args),
        OtherCommand::Run(args) => run::run(common, &args),
        OtherCommand::Doctor(args) => doctor::doctor(common, &args),
        OtherCommand::Explain(args) => explain::explain(common, &args),
        OtherCommand::Hook(args) => hook::hook(common, &args),
        OtherCommand::Token(args) => token::token(common, &args),
        OtherCommand::Secret(command) => secret::secret(command),
        OtherCommand::Audit(args) => audit::audit(common, &args),
        OtherCommand::Ui(args) => ui::ui(common, &args),
        OtherCommand::Schema => schema::schema(),
        OtherCommand::Completions(args) => completions::completions(&args),
    }
}
