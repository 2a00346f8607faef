//! `skill_list` and `skill_get`: skills and commands on disk, and the skills of all servers of the gateway.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolyard_tool::{Context, ToolError, tool};

use super::WithText;
use crate::sessions::{Scope, Sessions};
use crate::skills::{Skill, find_all, served};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct List {
    /// The project whose skills to list besides your own; those of your folder and roots if it is left out.
    project_path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Get {
    /// The name of the skill.
    #[schemars(length(min = 1))]
    name: String,
    /// The project to look in first.
    project_path: Option<String>,
}

/// A skill as it is listed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Listed {
    name: String,
    description: String,
    /// `project`, `user`, or `server` if a server of this gateway has it.
    origin: String,
    /// `skill` or `command`.
    kind: String,
    /// Where it is; of a skill of a server, its URI.
    path: String,
    /// The SHA-256 of the file.
    digest: String,
    /// Another skill of this name that it hides.
    #[serde(skip_serializing_if = "Option::is_none")]
    hides: Option<String>,
}

/// A skill with its text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Loaded {
    #[serde(flatten)]
    about: Listed,
    text: String,
}

/// Lists the skills and commands on disk, those of the project before your own, and the skills of all servers.
#[tool(read_only, idempotent)]
pub(crate) async fn skill_list(
    sessions: &Sessions,
    context: &Context,
    args: List,
) -> Result<WithText<Vec<Listed>>, ToolError> {
    let skills = sessions.all_skills(context, args.project_path.as_deref()).await?;
    let mut text = String::new();
    for skill in &skills {
        let _ = writeln!(text, "/{} [{}] {}", skill.name, skill.origin, skill.description);
        if let Some(hidden) = &skill.hides {
            let _ = writeln!(text, "  hides {hidden}");
        }
    }
    if skills.is_empty() {
        text.push_str("There are no skills.");
    }
    Ok(WithText::new(skills, text))
}

/// Returns the text of a skill.
#[tool(read_only, idempotent)]
pub(crate) async fn skill_get(
    sessions: &Sessions,
    context: &Context,
    args: Get,
) -> Result<WithText<Loaded>, ToolError> {
    let skills = sessions.all_skills(context, args.project_path.as_deref()).await?;
    let name = args.name.trim_start_matches('/');
    let names: Vec<String> = skills.iter().take(30).map(|skill| skill.name.clone()).collect();
    let Some(about) = skills.into_iter().find(|skill| skill.name == name || skill.path == name) else {
        return Err(ToolError::not_found(format!("there is no skill `{name}`"))
            .hint(format!("the skills are: {}", names.join(", "))));
    };
    let text = if about.origin == SERVER {
        context.tools()?.read_text(&about.path).await?
    } else {
        tokio::fs::read_to_string(&about.path).await?
    };
    if HEXLOWER.encode(&Sha256::digest(text.as_bytes())) != about.digest {
        return Err(ToolError::new(format!("the text of the skill `{name}` is not what was listed"))
            .hint("list the skills again; if it stays so, its server is at fault"));
    }
    Ok(WithText::new(Loaded { about, text: text.clone() }, text))
}

impl From<&Skill> for Listed {
    fn from(skill: &Skill) -> Self {
        Self {
            name: skill.name.clone(),
            description: skill.description.clone(),
            origin: skill.origin().to_owned(),
            kind: if skill.is_command { "command" } else { "skill" }.to_owned(),
            path: skill.path.display().to_string(),
            digest: skill.digest.clone(),
            hides: skill.hides.as_ref().map(|path| path.display().to_string()),
        }
    }
}

/// The origin of a skill that a server has.
const SERVER: &str = "server";

impl Listed {
    /// A skill of a server as the protocol's extension lists it; nothing if a part is missing.
    fn of_server(entry: &Value) -> Option<Self> {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let uri = text("/uri")?;
        let main = entry.get("resources")?.as_array()?.iter().find(|file| file["uri"] == uri.as_str())?;
        Some(Self {
            name: text("/frontmatter/name")?,
            description: text("/frontmatter/description").unwrap_or_default(),
            origin: SERVER.to_owned(),
            kind: "skill".to_owned(),
            path: uri,
            digest: main["digest"].as_str()?.strip_prefix("sha256:")?.to_owned(),
            hides: None,
        })
    }
}

impl Sessions {
    /// The skills on disk, then those of servers. If two have the same name, the first one is used and names the other.
    async fn all_skills(&self, context: &Context, project: Option<&str>) -> Result<Vec<Listed>, ToolError> {
        let mut all: Vec<Listed> = self.skills(context, project).await?.iter().map(Listed::from).collect();
        // Served alone, the pack has no gateway with other servers.
        let Ok(tools) = context.tools() else { return Ok(all) };
        let of_servers = tools.skills().await.unwrap_or_default();
        for skill in of_servers.iter().filter_map(Listed::of_server) {
            match all.iter_mut().find(|first| first.name == skill.name) {
                // The list of the gateway has those of this pack, too.
                Some(first) if first.digest == skill.digest => {}
                Some(first) => first.hides = first.hides.take().or(Some(skill.path)),
                None => all.push(skill),
            }
        }
        Ok(all)
    }

    /// The skills on disk as the protocol's extension serves them.
    pub(crate) async fn served_skills(
        &self,
        context: &Context,
    ) -> Result<Vec<toolyard_tool::Skill>, ToolError> {
        let skills = self.skills(context, None).await?;
        Ok(tokio::task::spawn_blocking(move || skills.iter().filter_map(served).collect()).await?)
    }

    async fn skills(&self, context: &Context, project: Option<&str>) -> Result<Vec<Skill>, ToolError> {
        // Without a known folder there are still the skills of the user.
        let folders = match self.scope(context, project).await {
            Ok(Scope::Below(folders)) => folders,
            Ok(Scope::Everywhere) => self.config.projects.clone(),
            Err(error) if project.is_some() => return Err(error),
            Err(_) => Vec::new(),
        };
        let home = self.config.home();
        Ok(tokio::task::spawn_blocking(move || find_all(&folders, &home)).await?)
    }
}
