//! The user's browser. Other users can read the arguments of a process, so the browser gets the path of a private page
//! that leads to the address, and not the address, which may have a code in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::system;

/// A private page that leads to an address. Removed when dropped, unless it is kept.
pub(crate) struct PrivatePage(PathBuf);

impl PrivatePage {
    /// Replaces the page of an earlier run.
    pub(crate) fn write(path: PathBuf, url: &str) -> Result<Self> {
        let page = include_str!("browser/page.html").replace("ADDRESS", &script_string(url));
        let written = toolyard_model::private_file::write(&path, page.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    /// Starts the program that opens files, if there is one.
    pub(crate) fn open(&self) -> Option<Child> {
        system::OPENERS.iter().find_map(|(program, arguments)| {
            let mut command = Command::new(program);
            command.args(*arguments).arg(&self.0);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        })
    }

    /// For a browser that reads it after this program has ended.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for PrivatePage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A string in a script, without the characters that could end the script in HTML.
fn script_string(text: &str) -> String {
    let escape = |text: String, (plain, escaped): (char, &str)| text.replace(plain, escaped);
    [('<', r"\u003c"), ('>', r"\u003e"), ('&', r"\u0026")].into_iter().fold(json!(text).to_string(), escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_cannot_end_the_script_that_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let url = r#"https://as.example/?a=</script><script>"&b=<!--"#;
        let page = PrivatePage::write(path.clone(), url).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written.matches("</script>").count(), 1, "{written}");
        let (_, rest) = written.split_once("location.replace(").unwrap();
        let (string, _) = rest.split_once(")</script>").unwrap();
        assert!(!string.contains(['<', '>', '&']), "{string}");
        assert_eq!(serde_json::from_str::<String>(string).unwrap(), url);
        drop(page);
        assert!(!path.exists());
    }
}
