//! `[logins.NAME]`: accounts at providers that packs use, such as those of models.

use super::oauth::{self, OAuthConfig};
use super::reader::{Reader, Section};
use super::tree::Value;

/// An account, and how the user signs in to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginConfig {
    pub name: String,
    pub issuer: String,
    pub oauth: OAuthConfig,
}

/// A project file may not name accounts of the user.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Vec<LoginConfig> {
    if let Some(field) = root.take("logins") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot name accounts", help);
    }
    Vec::new()
}

pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>) -> Vec<LoginConfig> {
    let fields = root.section(reader, "logins").map(Section::take_all).unwrap_or_default();
    let mut logins = Vec::new();
    for field in fields {
        if matches!(field.value(), Value::Flag(_)) {
            // This reports the wrong kind.
            let _ = field.section(reader);
            continue;
        }
        let (place, name) = (field.clone(), field.key.clone());
        let oauth = oauth::read(field, reader);
        if let Some(issuer) = oauth.issuer.clone() {
            logins.push(LoginConfig { name, issuer, oauth });
        } else {
            let help = format!("write {}", reader.example("issuer", "\"https://accounts.example\""));
            place.error(reader, "`issuer` is missing", help);
        }
    }
    logins
}
