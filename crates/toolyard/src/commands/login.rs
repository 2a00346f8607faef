//! `toolyard login` and `toolyard logout`: sign the user in at a server, in the browser, by a pasted address or by a
//! device code.

use std::fs::{self, DirEntry};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::ArgValueCandidates;
use tokio::io::AsyncBufReadExt;
use toolyard_config::{Config, state_dir};
use toolyard_oauth::client::{Callback, Challenge, DeviceSignIn, Keeper, Redirect, SignIn, challenge};

use super::live;
use super::manage;
use super::remove::known;
use crate::browser::PrivatePage;
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::{Failure, refused};
use crate::sign_ins::{SignInContext, target};
use crate::{say, settings};

/// What the names of the pages begin with, in the folder of the state of all configs.
const PAGE: &str = "open-sign-in";
/// A page of this age belongs to a sign-in that was broken off.
const ABANDONED: Duration = Duration::from_hours(1);

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server, or the account in `[logins.NAME]`.
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: String,
    /// Do not open a browser: print the address, and accept the address that the browser was sent to.
    #[arg(long)]
    no_browser: bool,
    /// Sign in with a code on any other device, where the server offers that.
    #[arg(long, conflicts_with = "no_browser")]
    device: bool,
    /// Ask for this scope, too. Can be given several times.
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server, or the account in `[logins.NAME]`.
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: String,
}

pub(super) fn login(common: &Common, args: &LoginArgs) -> Result<(), Failure> {
    let settings = settings::read(common)?;
    live::block_on(async {
        let context = context(&settings.config);
        let keeper = keeper(&context, &settings.config, &args.name)?;
        sign_in(&context, &keeper, args).await?;
        say::result(format_args!("signed in at `{}`", keeper.target().name));
        Ok::<_, Failure>(())
    })??;
    if !is_account(&settings.config, &args.name) {
        manage::restart_if_running(common, &args.name);
    }
    Ok(())
}

/// Whether it is an account and no server, so that there is nothing to start again.
fn is_account(config: &Config, name: &str) -> bool {
    !config.upstreams.ids().any(|id| id.as_str().eq_ignore_ascii_case(name))
}

pub(super) fn logout(common: &Common, args: &LogoutArgs) -> Result<(), Failure> {
    let settings = settings::read(common)?;
    let was_signed_in = live::block_on(async {
        let keeper = keeper(&context(&settings.config), &settings.config, &args.name)?;
        keeper.sign_out().await.map_err(|error| Failure::Other(error.into()))
    })??;
    if was_signed_in {
        say::result(format_args!("signed out of `{}`", args.name));
        if !is_account(&settings.config, &args.name) {
            manage::restart_if_running(common, &args.name);
        }
    } else {
        say::line(format_args!("there was no sign-in at `{}`", args.name));
    }
    Ok(())
}

/// A gateway with this config may share the credentials with other nodes.
fn context(config: &Config) -> SignInContext {
    let context = SignInContext::of_user();
    if config.cluster.is_some() { context.beside_node() } else { context }
}

fn keeper(context: &SignInContext, config: &Config, name: &str) -> Result<Keeper, Failure> {
    let is_it = |id: &str| id.eq_ignore_ascii_case(name);
    let no_folder = || {
        let message = "there is no folder for secrets: neither XDG_STATE_HOME nor HOME is set";
        Failure::Usage(message.to_owned())
    };
    let Some(upstream) = config.upstreams.on.iter().find(|upstream| is_it(upstream.id.as_str())) else {
        if let Some(login) = config.logins.iter().find(|login| login.name == name) {
            return context.account(login).ok_or_else(no_folder);
        }
        let mut ids: Vec<&str> = config.upstreams.on.iter().map(|upstream| upstream.id.as_str()).collect();
        ids.extend(config.logins.iter().map(|login| login.name.as_str()));
        return Err(refused(format!("there is no server `{name}` in the config"), known(name, &ids)));
    };
    let Some(target) = target(upstream) else {
        let help = "a sign-in needs an https:// address in `url`, no `Authorization` in `headers`, and `oauth` not off";
        return Err(refused(format!("`{name}` has no sign-in"), help));
    };
    context.keeper(target).ok_or_else(no_folder)
}

async fn sign_in(context: &SignInContext, keeper: &Keeper, args: &LoginArgs) -> Result<()> {
    let is_account = keeper.target().settings.is_account;
    let asked = if is_account { None } else { Some(challenge(context.http(), keeper.target()).await?) };
    let mut challenge = asked.unwrap_or_default();
    challenge.scopes.extend(args.scope.iter().cloned());
    let port = keeper.target().settings.callback_port;
    let callback = Callback::open(port).await?;
    if args.device {
        return by_device(context, keeper, &challenge, &callback).await;
    }
    let sign_in = keeper.begin(&challenge, &callback.redirect_uri()).await?;
    say::line("open this page to sign in:");
    say::result(&sign_in.url);
    let page = if args.no_browser { None } else { open_page(&sign_in.url) };
    match &page {
        // Browsers that are snaps cannot read hidden folders of the home.
        Some(_) => say::line("if the page does not appear, open the address above"),
        None if args.no_browser => {}
        None => say::line("no browser could be opened; open the page yourself"),
    }
    let query = redirect(&callback, &sign_in, args.no_browser).await?;
    let finished = keeper.finish(&sign_in, &query.query).await;
    query.answer(finished.as_ref().copied().map_err(ToString::to_string)).await;
    Ok(finished?)
}

/// Opens the page in the user's browser, by a private page that is there until the sign-in has ended.
fn open_page(url: &str) -> Option<PrivatePage> {
    let folder = state_dir::base(&settings::variable)?;
    let written = state_dir::create(&folder).map_err(Into::into);
    remove_abandoned(&folder);
    let path = folder.join(format!("{PAGE}.{}.html", std::process::id()));
    let page = written.and_then(|()| PrivatePage::write(path, url));
    let page = page.inspect_err(|error| say::line(format_args!("{error:#}"))).ok()?;
    page.open().map(|_| page)
}

/// Removes the pages of sign-ins that were broken off, for example with Ctrl-C.
fn remove_abandoned(folder: &Path) {
    let is_page = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(PAGE);
    let age = |entry: &DirEntry| entry.metadata().ok()?.modified().ok()?.elapsed().ok();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(is_page) {
        if age(&entry).is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

async fn by_device(
    context: &SignInContext,
    keeper: &Keeper,
    challenge: &Challenge,
    callback: &Callback,
) -> Result<()> {
    let (found, scopes) = keeper.prepare(challenge).await?;
    let vault = context.vault().context("there is no folder for secrets")?;
    let (http, target) = (context.http(), keeper.target());
    let begun = DeviceSignIn::begin(http, vault, target, found, &scopes, &callback.redirect_uri()).await?;
    say::line(format_args!("open this page on any device and enter the code {}:", begun.user_code));
    say::result(begun.page_with_code.as_ref().unwrap_or(&begun.page));
    let credential = begun.finish(http).await?;
    Ok(keeper.accept(credential).await?)
}

/// Waits for the browser, or for its address to be pasted.
async fn redirect(callback: &Callback, sign_in: &SignIn, may_paste: bool) -> Result<Redirect> {
    let may_paste = may_paste || std::io::stdin().is_terminal();
    if may_paste {
        say::line("if the browser runs elsewhere, paste the address that it was sent to:");
    }
    tokio::select! {
        redirect = callback.wait(sign_in.state()) => Ok(redirect?),
        pasted = pasted(), if may_paste => pasted,
    }
}

/// The query of the first pasted address that has one. At the end of the input, only the redirect of the browser can
/// arrive, so this never returns.
async fn pasted() -> Result<Redirect> {
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let line = line.trim();
        match line.split_once('?') {
            Some((_, query)) => {
                return Ok(Redirect::pasted(query.split('#').next().unwrap_or(query)));
            }
            None if line.is_empty() => {}
            None => say::line("that is not the complete address, which contains `?` and a code"),
        }
    }
    std::future::pending().await
}
