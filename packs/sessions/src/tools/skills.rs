//! `skill_list` and `skill_get`: skills and commands on disk.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, tool};

use super::WithText;
use crate::sessions::{Scope, Sessions};
use crate::skills::{Skill, find_all};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct List {
    /// The project whose skills to list besides your own; those of your roots if it is left out.
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
    /// `project` or `user`.
    origin: String,
    /// `skill` or `command`.
    kind: String,
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

/// Lists the skills and commands on disk: those of the project come before your own.
#[tool(read_only, idempotent)]
pub(crate) async fn skill_list(
    sessions: &Sessions,
    context: &Context,
    args: List,
) -> Result<WithText<Vec<Listed>>, ToolError> {
    let skills = sessions.skills(context, args.project_path.as_deref()).await?;
    let mut text = String::new();
    for skill in &skills {
        let _ = writeln!(text, "/{} [{}] {}", skill.name, skill.origin(), skill.description);
        if let Some(hidden) = &skill.hides {
            let _ = writeln!(text, "  hides {}", hidden.display());
        }
    }
    if skills.is_empty() {
        text.push_str("There are no skills.");
    }
    Ok(WithText::new(skills.iter().map(Listed::from).collect(), text))
}

/// Returns the text of a skill.
#[tool(read_only, idempotent)]
pub(crate) async fn skill_get(
    sessions: &Sessions,
    context: &Context,
    args: Get,
) -> Result<WithText<Loaded>, ToolError> {
    let skills = sessions.skills(context, args.project_path.as_deref()).await?;
    let name = args.name.trim_start_matches('/');
    let Some(skill) = skills.iter().find(|skill| skill.name == name) else {
        let names: Vec<&str> = skills.iter().take(30).map(|skill| skill.name.as_str()).collect();
        return Err(ToolError::not_found(format!("there is no skill `{name}`"))
            .hint(format!("the skills are: {}", names.join(", "))));
    };
    let text = skill.text.clone();
    Ok(WithText::new(Loaded { about: skill.into(), text: text.clone() }, text))
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

impl Sessions {
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
