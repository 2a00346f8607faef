//! The project that the caller works in, and whether this call may touch it.

use std::path::{Path, PathBuf};

use super::Context;
use crate::ToolError;

impl Context {
    /// Whether the connection proves who its user is: by a credential, or by a socket that only one user can reach. A
    /// tool that writes, runs programs, spends money or reads private files should serve no other connection.
    pub fn is_proven(&self) -> bool {
        self.0.origin.is_proven
    }

    /// The folder that the client has named as its own when it connected. Any client can name any folder: see
    /// [`Context::is_proven`].
    pub fn client_folder(&self) -> Option<&Path> {
        self.0.origin.folder.as_deref()
    }

    /// The folder of the caller's project: `argument` if there is one, else the folder that the client works in, else
    /// the first of its roots. On a connection that does not prove its user it must be inside one of `projects`, which
    /// are those that the config of the pack names.
    ///
    /// ```
    /// # use std::path::PathBuf;
    /// # use toolyard_tool::{Context, ToolError, tool};
    /// /// Counts the files of the caller's project.
    /// #[tool(read_only)]
    /// async fn count_files(context: &Context, projects: &Vec<PathBuf>) -> Result<usize, ToolError> {
    ///     let project = context.folder(None, projects).await?;
    ///     Ok(std::fs::read_dir(project)?.count())
    /// }
    /// ```
    pub async fn folder(&self, argument: Option<&Path>, projects: &[PathBuf]) -> Result<PathBuf, ToolError> {
        let folder = match argument.or(self.client_folder()) {
            Some(folder) => folder.to_owned(),
            None => self.first_root().await?,
        };
        let unreadable = |error: std::io::Error| ToolError::new(format!("{}: {error}", folder.display()));
        let real = std::fs::canonicalize(&folder).map_err(unreadable)?;
        if !real.is_dir() {
            return Err(ToolError::new(format!("{} is not a folder", folder.display())));
        }
        let is_named = projects.iter().filter_map(|project| std::fs::canonicalize(project).ok());
        if self.is_proven() || is_named.into_iter().any(|project| real.starts_with(project)) {
            return Ok(real);
        }
        let message =
            format!("{} is not open to this connection, which does not prove its user", folder.display());
        Err(ToolError::new(message).hint(
            "connect through `toolyard stdio` or with a token, or name the folder in `projects` of the pack",
        ))
    }

    async fn first_root(&self) -> Result<PathBuf, ToolError> {
        let none = || {
            ToolError::new("it is not known which project is meant").hint("name the folder of the project")
        };
        if !self.has_roots() {
            return Err(none());
        }
        let roots = self.roots().await?;
        roots.iter().find_map(|root| path_of(&root.uri)).ok_or_else(none)
    }
}

/// Why a connection is not served. `what` is the subject with its verb; `otherwise` is added to what can be done.
pub(crate) fn unproven(what: &str, otherwise: &str) -> ToolError {
    ToolError::new(format!("{what} only connections that prove their user, and this one does not"))
        .hint(format!("connect through `toolyard stdio`, or with a token{otherwise}"))
}

/// The path of a `file://` URI of this machine.
fn path_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let path = PathBuf::from(String::from_utf8(bytes).ok()?);
    path.is_absolute().then_some(path)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolyard_model::{Ask, AskError, Back, BoxFuture, ClientKey, Origin, Peer, Principal, Request, View};
    use toolyard_proto::{Id, Method, Notification, Params, Raw, Revision};

    use super::*;
    use crate::context::Surroundings;

    fn origin(revision: Revision, capabilities: Value, is_proven: bool, folder: Option<&Path>) -> Origin {
        Origin::new(View::Everything, Principal::local(), ClientKey::Connection(1), revision)
            .with_capabilities(capabilities.into())
            .with_place(is_proven, folder.map(Into::into))
    }

    fn context(is_proven: bool, folder: Option<&Path>) -> Context {
        let origin = origin(Revision::NEWEST, json!({}), is_proven, folder);
        let request = Request::new(Arc::new(origin), Id::number(1), Method::TOOLS_CALL, Params::none());
        Context::new(&request, Peer::none(), Arc::new(Surroundings::new("t".into())))
    }

    #[tokio::test]
    async fn a_folder_counts_on_a_proven_connection_and_elsewhere_only_where_the_config_names_it() {
        let place = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(place.path()).unwrap();
        let (named, other) = (root.join("named"), root.join("other"));
        for folder in [&named.join("deep"), &other] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&other, named.join("out")).unwrap();
        let projects = [named.clone()];
        for (is_proven, folder, is_open) in [
            (true, &named, true),
            (true, &other, true),
            (false, &named.join("deep"), true),
            (false, &other, false),
            (false, &named.join("out"), false),
            (false, &named.join("../other"), false),
            (true, &root.join("missing"), false),
        ] {
            let by_client = context(is_proven, Some(folder)).folder(None, &projects).await;
            let by_argument = context(is_proven, None).folder(Some(folder), &projects).await;
            assert_eq!(by_client.is_ok(), is_open, "{is_proven} {}", folder.display());
            assert_eq!(by_argument.is_ok(), is_open, "{is_proven} {}", folder.display());
        }
        assert_eq!(context(true, Some(&other)).folder(Some(&named), &[]).await.unwrap(), named);
        let unknown = context(true, None).folder(None, &projects).await.unwrap_err();
        assert!(unknown.to_string().contains("not known which project"), "{unknown}");
    }

    /// Answers `roots/list` with the folder.
    struct Roots(PathBuf);

    impl Back for Roots {
        fn notify(&self, _: Notification) {}

        fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
            assert_eq!(ask.method.as_str(), "roots/list");
            let roots = json!({ "roots": [
                { "uri": "https://example.org/" },
                { "uri": format!("file://{}", self.0.display()), "name": "the project" },
                { "uri": "file:///" },
            ] });
            Box::pin(async move { Ok(roots.into()) })
        }
    }

    #[tokio::test]
    async fn the_first_root_that_is_a_folder_counts_where_neither_argument_nor_folder_is_given() {
        let place = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(place.path()).unwrap();
        for (is_proven, projects, is_open) in
            [(true, vec![], true), (false, vec![root.clone()], true), (false, vec![], false)]
        {
            let origin = origin(Revision::V2025_11_25, json!({ "roots": {} }), is_proven, None);
            let request = Request::new(Arc::new(origin), Id::number(1), Method::TOOLS_CALL, Params::none());
            let peer = Peer::new(Arc::new(Roots(root.clone())));
            let context = Context::new(&request, peer, Arc::new(Surroundings::new("t".into())));
            let folder = context.folder(None, &projects).await;
            match folder {
                Ok(folder) => assert!(is_open && folder == root, "{is_proven} {projects:?}"),
                Err(error) => {
                    assert!(!is_open && error.to_string().contains("does not prove its user"), "{error}");
                }
            }
        }
    }

    #[test]
    fn only_files_of_this_machine_are_roots() {
        let check = |uri: &str, expected: Option<&str>| {
            assert_eq!(path_of(uri), expected.map(PathBuf::from), "{uri}");
        };
        check("file:///srv/a%20b", Some("/srv/a b"));
        check("file://localhost/srv", Some("/srv"));
        check("file://elsewhere/srv", None);
        check("https://example.org/", None);
        check("file:///a%2", None);
    }
}
