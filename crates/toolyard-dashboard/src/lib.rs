//! The dashboard: plain HTML, CSS and JavaScript modules, embedded in the binary. There is no build step: what is in
//! `assets` is what browsers get. The pages read everything from the control API.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use toolyard_model::{Page, Pages};

/// All files of the dashboard.
const FILES: &[(&str, &[u8])] = &[
    ("index.html", include_bytes!("../assets/index.html")),
    ("app.css", include_bytes!("../assets/app.css")),
    ("app.js", include_bytes!("../assets/app.js")),
    ("api.js", include_bytes!("../assets/api.js")),
    ("dom.js", include_bytes!("../assets/dom.js")),
    ("format.js", include_bytes!("../assets/format.js")),
    ("json.js", include_bytes!("../assets/json.js")),
    ("chart.js", include_bytes!("../assets/chart.js")),
    ("yard.js", include_bytes!("../assets/yard.js")),
    ("calls.js", include_bytes!("../assets/calls.js")),
    ("call.js", include_bytes!("../assets/call.js")),
    ("upstream.js", include_bytes!("../assets/upstream.js")),
    ("playground.js", include_bytes!("../assets/playground.js")),
    ("schema.js", include_bytes!("../assets/schema.js")),
    ("audit.js", include_bytes!("../assets/audit.js")),
    ("config.js", include_bytes!("../assets/config.js")),
    ("approvals.js", include_bytes!("../assets/approvals.js")),
    ("agents.js", include_bytes!("../assets/agents.js")),
    ("cluster.js", include_bytes!("../assets/cluster.js")),
    ("icon.svg", include_bytes!("../assets/icon.svg")),
];

static EMBEDDED: LazyLock<Vec<(&str, Page)>> = LazyLock::new(|| {
    FILES.iter().map(|(name, body)| (*name, page(name, Bytes::from_static(body)))).collect()
});

/// The source of the files.
#[derive(Clone, Debug)]
pub enum Dashboard {
    Embedded,
    /// From a folder, read at each request, for work on the dashboard itself.
    Folder(PathBuf),
}

impl Pages for Dashboard {
    fn page(&self, path: &str) -> Option<Page> {
        let name = if path.is_empty() { "index.html" } else { path };
        // Only names in the list are ever read, so a path cannot lead elsewhere.
        let (_, page) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
        match self {
            Self::Embedded => Some(page.clone()),
            Self::Folder(folder) => read(folder, name),
        }
    }
}

fn read(folder: &Path, name: &str) -> Option<Page> {
    std::fs::read(folder.join(name)).ok().map(|body| page(name, body.into()))
}

fn page(name: &str, body: Bytes) -> Page {
    let etag = format!("\"{}\"", &HEXLOWER.encode(&Sha256::digest(&body))[..16]);
    Page { content_type: content_type(name), etag, body }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_together_are_small() {
        let size: usize = FILES.iter().map(|(_, body)| body.len()).sum();
        assert!(size < 400 * 1024, "{size} bytes");
    }

    #[test]
    fn the_list_has_every_file_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut listed: Vec<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        there.sort();
        listed.sort();
        assert_eq!(there, listed);
    }

    #[test]
    fn pages_are_found_by_name_and_nothing_else_is() {
        assert_eq!(Dashboard::Embedded.page("").unwrap().content_type, "text/html; charset=utf-8");
        assert!(Dashboard::Embedded.page("app.js").is_some());
        for path in ["../Cargo.toml", "/etc/passwd", "assets/app.js", "nothing.js"] {
            assert!(Dashboard::Folder("/".into()).page(path).is_none(), "{path}");
        }
    }

    #[test]
    fn no_file_writes_html_from_text() {
        for (name, body) in FILES.iter().filter(|(name, _)| content_type(name).starts_with("text/javascript"))
        {
            let text = std::str::from_utf8(body).unwrap();
            for sink in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!text.contains(sink), "{name} uses {sink}");
            }
        }
    }
}
