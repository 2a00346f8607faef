//! The items of a set at one moment, and its rendered lists.

use std::collections::HashMap;
use std::sync::Arc;

use crate::handler::Lists;
use crate::item::Entry;
use crate::item::completion::Completion;
use crate::item::prompt::Prompt;
use crate::item::resource::Resource;
use crate::item::template::Template;
use crate::item::tool::{TaskUse, Tool};

/// There is something of that name in the set already.
///
/// ```
/// use toolyard_tool::{Taken, ToolSet, tool};
///
/// /// Greets the user.
/// #[tool]
/// async fn hello() {}
///
/// let set = ToolSet::new("a", "1.0.0").with::<hello>();
/// let taken: Taken = set.live().add(ToolSet::new("b", "1.0.0").with::<hello>()).unwrap_err();
/// assert_eq!(taken.to_string(), "there are two tools named `hello` in the set");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two {kind} `{name}` in the set")]
pub struct Taken {
    kind: &'static str,
    name: &'static str,
}

/// Everything offered, in the order in which it was added.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) prompts: Vec<Arc<Prompt>>,
    pub(crate) resources: Vec<Arc<Resource>>,
    pub(crate) templates: Vec<Arc<Template>>,
    pub(crate) completions: Vec<Arc<Completion>>,
    tool_by_name: HashMap<&'static str, usize>,
    /// The tools that are listed, if not all are.
    pub(crate) listed: Option<Arc<[&'static str]>>,
    /// Made on first use.
    pub(crate) lists: Lists,
}

/// The lists of a copy are rendered again, because a copy is made to be changed.
impl Clone for Items {
    fn clone(&self) -> Self {
        Self {
            tools: self.tools.clone(),
            prompts: self.prompts.clone(),
            resources: self.resources.clone(),
            templates: self.templates.clone(),
            completions: self.completions.clone(),
            tool_by_name: self.tool_by_name.clone(),
            listed: self.listed.clone(),
            lists: Lists::default(),
        }
    }
}

impl Items {
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), Taken> {
        match entry {
            Entry::Tool(tool) => self.add_tool(Arc::new(tool)),
            Entry::Prompt(prompt) => self.add_prompt(Arc::new(prompt)),
            Entry::Resource(resource) => self.add_resource(Arc::new(resource)),
            Entry::Template(template) => self.add_template(Arc::new(template)),
            Entry::Completion(completion) => {
                self.completions.push(Arc::new(completion));
                Ok(())
            }
        }
    }

    pub(crate) fn is_listed(&self, tool: &Tool) -> bool {
        self.listed.as_ref().is_none_or(|listed| listed.contains(&tool.name))
    }

    /// Adds everything of `other`.
    pub(super) fn join(&mut self, other: &Self) -> Result<(), Taken> {
        other.tools.iter().try_for_each(|tool| self.add_tool(tool.clone()))?;
        other.prompts.iter().try_for_each(|prompt| self.add_prompt(prompt.clone()))?;
        other.resources.iter().try_for_each(|resource| self.add_resource(resource.clone()))?;
        other.templates.iter().try_for_each(|template| self.add_template(template.clone()))?;
        self.completions.extend(other.completions.iter().cloned());
        Ok(())
    }

    fn add_tool(&mut self, tool: Arc<Tool>) -> Result<(), Taken> {
        if self.tool_by_name.insert(tool.name, self.tools.len()).is_some() {
            return Err(Taken { kind: "tools named", name: tool.name });
        }
        self.tools.push(tool);
        Ok(())
    }

    fn add_prompt(&mut self, prompt: Arc<Prompt>) -> Result<(), Taken> {
        if self.prompt(prompt.name).is_some() {
            return Err(Taken { kind: "prompts named", name: prompt.name });
        }
        self.prompts.push(prompt);
        Ok(())
    }

    fn add_resource(&mut self, resource: Arc<Resource>) -> Result<(), Taken> {
        if self.resource(resource.uri).is_some() {
            return Err(Taken { kind: "resources at", name: resource.uri });
        }
        self.resources.push(resource);
        Ok(())
    }

    fn add_template(&mut self, template: Arc<Template>) -> Result<(), Taken> {
        if self.templates.iter().any(|one| one.uri == template.uri) {
            return Err(Taken { kind: "templates at", name: template.uri });
        }
        self.templates.push(template);
        Ok(())
    }

    pub(super) fn remove_tool(&mut self, name: &str) {
        self.tools.retain(|tool| tool.name != name);
        self.tool_by_name = self.tools.iter().enumerate().map(|(index, tool)| (tool.name, index)).collect();
    }

    /// Completions of the prompt's arguments are removed with it.
    pub(super) fn remove_prompt(&mut self, name: &str) {
        self.prompts.retain(|prompt| prompt.name != name);
        self.completions.retain(|completion| completion.about.of != name);
    }

    /// Completions of a template's variables are removed with it.
    pub(super) fn remove_resource(&mut self, uri: &str) {
        self.resources.retain(|resource| resource.uri != uri);
        self.templates.retain(|template| template.uri != uri);
        self.completions.retain(|completion| completion.about.of != uri);
    }

    pub(super) fn tool_names(&self) -> Vec<&'static str> {
        self.tools.iter().map(|tool| tool.name).collect()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tool_by_name.get(name).map(|index| &self.tools[*index])
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }

    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.uri == uri)
    }

    pub(crate) fn has_resource(&self, uri: &str) -> bool {
        self.resource(uri).is_some() || self.templates.iter().any(|one| one.pattern.fit(uri).is_some())
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.tools.iter().any(|tool| tool.task != TaskUse::Never)
    }
}
