//! A set's description of itself and its lists, made once for each revision that is used.

use std::sync::OnceLock;

use serde_json::{Value, json};
use toolyard_model::{ClientKey, Origin, Request};
use toolyard_proto::app::UNLISTED;
use toolyard_proto::modern::{SKILLS_EXTENSION, stamp_cache, stamp_result};
use toolyard_proto::{CallError, Method, Raw, Revision, legacy};

use super::{Answering, TTL_MS, ready};
use crate::{ToolSet, tasks};

/// Lists as they are sent. Only the list of tools differs between revisions.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    tools: [OnceLock<Raw>; Revision::ALL.len()],
    /// All tools, for the gateway that contains the set: it knows which are not to be listed.
    all_tools: OnceLock<Raw>,
    prompts: OnceLock<Raw>,
    resources: OnceLock<Raw>,
    templates: OnceLock<Raw>,
}

impl<S: Send + Sync + 'static> ToolSet<S> {
    pub(super) fn discover(&self, origin: &Origin) -> Raw {
        let versions: Vec<&str> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
        let mut discovered =
            json!({ "supportedVersions": versions, "capabilities": self.capabilities(origin) });
        if let Some(text) = &self.about.instructions {
            discovered["instructions"] = text.as_str().into();
        }
        self.public(&discovered.into())
    }

    /// The set's description of itself for the gateway that contains it.
    pub(crate) fn greeting(&self) -> Raw {
        self.discover(&Origin::gateway(Raw::empty_object(), Raw::empty_object()))
    }

    fn capabilities(&self, origin: &Origin) -> Value {
        let (items, is_live) = (self.offer.items(), self.offer.is_live());
        let mut capabilities = json!({ "logging": {} });
        if is_live || !items.tools.is_empty() {
            capabilities["tools"] = json!({ "listChanged": true });
        }
        if is_live || !items.prompts.is_empty() {
            capabilities["prompts"] = json!({ "listChanged": true });
        }
        let has_skills = self.about.skills.is_some();
        if is_live || has_skills || !items.resources.is_empty() || !items.templates.is_empty() {
            capabilities["resources"] = json!({ "subscribe": true, "listChanged": true });
        }
        if is_live || !items.completions.is_empty() {
            capabilities["completions"] = json!({});
        }
        if is_live || items.has_tasks() {
            tasks::declare(origin, &mut capabilities);
        }
        if has_skills {
            capabilities["extensions"][SKILLS_EXTENSION] = json!({ "directoryRead": true });
        }
        capabilities
    }

    /// Lists have one page, so any cursor is invalid.
    pub(super) fn list(&self, request: &Request) -> Answering {
        if request.params.member("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(CallError::invalid_params("`cursor` was not issued by this server"));
        }
        let items = self.offer.items();
        let lists = &items.lists;
        let revision = request.origin.revision;
        let list = match &request.method {
            method if *method == Method::TOOLS_LIST && request.origin.client == ClientKey::Gateway => {
                lists.all_tools.get_or_init(|| {
                    let tools = items.tools.iter().map(|tool| {
                        let definition = &tool.definition;
                        if items.is_listed(tool) {
                            return definition.clone();
                        }
                        definition.with_path(&["_meta", UNLISTED], &Raw::from_serialize(&true))
                    });
                    self.rendered("tools", tools)
                })
            }
            method if *method == Method::TOOLS_LIST => lists.tools[revision as usize].get_or_init(|| {
                let tools = items.tools.iter().filter(|tool| items.is_listed(tool));
                let tools = tools.map(|tool| legacy::tool_for(revision, &tool.definition));
                self.rendered("tools", tools)
            }),
            method if *method == Method::PROMPTS_LIST => lists.prompts.get_or_init(|| {
                self.rendered("prompts", items.prompts.iter().map(|prompt| prompt.definition.clone()))
            }),
            method if *method == Method::RESOURCES_LIST => lists.resources.get_or_init(|| {
                self.rendered("resources", items.resources.iter().map(|one| one.definition.clone()))
            }),
            _ => lists.templates.get_or_init(|| {
                self.rendered("resourceTemplates", items.templates.iter().map(|one| one.definition.clone()))
            }),
        };
        Ok(ready(list.clone()))
    }

    fn rendered(&self, key: &str, entries: impl Iterator<Item = Raw>) -> Raw {
        let entries: Vec<Raw> = entries.collect();
        self.public(&Raw::empty_object().with(key, &Raw::array(&entries)))
    }

    fn public(&self, result: &Raw) -> Raw {
        stamp_cache(&stamp_result(result, Some(self.about.info())), TTL_MS, "public")
    }
}
