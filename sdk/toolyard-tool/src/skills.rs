//! Skills that a set serves by the protocol's extension: a list, single entries, and their files as resources.
//!
//! The source is asked each time, so that a skill which has changed on disk is listed as it is.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use toolyard_model::BoxFuture;
use toolyard_proto::{CallError, Raw};

use crate::{Context, ToolError};

const SCHEME: &str = "skill://";
/// The file that every skill has.
const MAIN: &str = "SKILL.md";

/// A folder of instructions for a model, with a `SKILL.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    path: String,
    frontmatter: Map<String, Value>,
    files: Vec<(String, Vec<u8>)>,
}

impl Skill {
    /// A skill with the frontmatter of its `SKILL.md`. `path` is what follows `skill://`; its last part is the name in
    /// the frontmatter.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolyard_tool::Skill;
    ///
    /// let front = json!({ "name": "pdf", "description": "Reads papers" });
    /// let text = "---\nname: pdf\ndescription: Reads papers\n---\nOpen the file.";
    /// let skill = Skill::new("pdf", front.as_object().unwrap().clone(), text).file("forms.md", "Forms.");
    /// ```
    pub fn new(
        path: impl Into<String>,
        frontmatter: Map<String, Value>,
        main_file: impl Into<Vec<u8>>,
    ) -> Self {
        Self { path: path.into(), frontmatter, files: vec![(MAIN.into(), main_file.into())] }
    }

    /// Adds a file; its path is relative to the skill, with slashes.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    fn uri(&self) -> String {
        self.uri_of(MAIN)
    }

    fn uri_of(&self, file: &str) -> String {
        format!("{SCHEME}{}/{}", encoded(&self.path), encoded(file))
    }

    fn entry(&self) -> Value {
        let file = |(path, content): &(String, Vec<u8>)| {
            let digest = HEXLOWER.encode(&Sha256::digest(content));
            json!({ "uri": self.uri_of(path), "digest": format!("sha256:{digest}"), "size": content.len() })
        };
        let resources: Vec<Value> = self.files.iter().map(file).collect();
        json!({ "uri": self.uri(), "frontmatter": self.frontmatter, "resources": resources })
    }
}

/// The source of a set's skills.
#[derive(Clone)]
pub(crate) struct SkillSource(Arc<Listing>);

type Listing = dyn Fn(Context) -> BoxFuture<Result<Vec<Skill>, ToolError>> + Send + Sync;

impl fmt::Debug for SkillSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SkillSource")
    }
}

impl SkillSource {
    pub(crate) fn new<F>(list: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<Skill>, ToolError>> + Send + 'static,
    {
        Self(Arc::new(move |context| Box::pin(list(context))))
    }

    /// Whether a URI can be that of a file of a skill.
    pub(crate) fn is_of(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// The result of `skills/list`.
    pub(crate) async fn list(self, context: Context) -> Result<Raw, CallError> {
        let entries: Vec<Value> = self.skills(context).await?.iter().map(Skill::entry).collect();
        Ok(json!({ "skills": entries }).into())
    }

    /// The result of `skills/get`.
    pub(crate) async fn get(self, context: Context, uri: String) -> Result<Raw, CallError> {
        let skills = self.skills(context).await?;
        let found = skills.iter().find(|skill| skill.uri() == uri).ok_or_else(|| unknown(&uri))?;
        Ok(json!({ "skill": found.entry() }).into())
    }

    /// The result of `resources/read`.
    pub(crate) async fn read(self, context: Context, uri: String) -> Result<Raw, CallError> {
        let skills = self.skills(context).await?;
        let mut files = skills.iter().flat_map(|skill| skill.files.iter().map(move |file| (skill, file)));
        let found = files.find(|(skill, (path, _))| skill.uri_of(path) == uri);
        let (_, (path, bytes)) = found.ok_or_else(|| unknown(&uri))?;
        let mut read = json!({ "uri": uri, "mimeType": mime_type(path, bytes) });
        match std::str::from_utf8(bytes) {
            Ok(text) => read["text"] = text.into(),
            Err(_) => read["blob"] = BASE64.encode(bytes).into(),
        }
        Ok(json!({ "contents": [read] }).into())
    }

    /// The result of `resources/directory/read`.
    pub(crate) async fn directory(self, context: Context, uri: String) -> Result<Raw, CallError> {
        let skills = self.skills(context).await?;
        let base = format!("{}/", uri.trim_end_matches('/'));
        let (mut files, mut folders) = (Vec::new(), BTreeSet::new());
        for skill in &skills {
            for (path, bytes) in &skill.files {
                let file = skill.uri_of(path);
                match file.strip_prefix(&base).map(|rest| rest.split_once('/')) {
                    Some(Some((folder, _))) => {
                        folders.insert(folder.to_owned());
                    }
                    Some(None) => files.push(json!({
                        "uri": file, "name": path.rsplit('/').next(), "size": bytes.len(),
                        "mimeType": mime_type(path, bytes),
                    })),
                    None => {}
                }
            }
        }
        if files.is_empty() && folders.is_empty() {
            return Err(CallError::invalid_params(format!("{uri} is not a directory of a skill")));
        }
        let folder = |name: String| json!({ "uri": format!("{base}{name}"), "name": name, "mimeType": "inode/directory" });
        files.extend(folders.into_iter().map(folder));
        Ok(json!({ "resources": files }).into())
    }

    async fn skills(&self, context: Context) -> Result<Vec<Skill>, CallError> {
        (self.0)(context).await.map_err(|error| error.to_call_error())
    }
}

fn unknown(uri: &str) -> CallError {
    CallError::invalid_params(format!("there is no skill with the file {uri}"))
}

/// A path as it is part of a URI.
fn encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn mime_type(path: &str, content: &[u8]) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        _ if std::str::from_utf8(content).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}
