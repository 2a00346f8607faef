//! `[auth]`: the secret that apps and agents make their tokens from, and the issuers of other tokens.

use std::time::Duration;

use toolyard_proto::token::{Rules, SHORTEST_SECRET, Secret};

use super::reader::{Field, Reader, Section};
use super::resource::{self, ResourceConfig};

/// Longer is not safer than a bearer that never ends.
pub(crate) const LONGEST: Duration = Duration::from_hours(24);

/// Which tokens are accepted beside those of `[listen]`.
#[derive(Default)]
pub(crate) struct AuthSection {
    pub(crate) rules: Option<Rules>,
    pub(crate) oauth: Option<ResourceConfig>,
}

/// A project file may not say who comes in.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> AuthSection {
    if let Some(field) = root.take("auth") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot set who may connect", help);
    }
    AuthSection::default()
}

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> AuthSection {
    let place = field.clone();
    let Some(mut section) = field.section(reader) else { return AuthSection::default() };
    let oauth_field = section.take("oauth");
    let is_for_oauth = oauth_field.is_some();
    let oauth = oauth_field.and_then(|field| resource::read(field, reader));
    let secret = section.take("secret");
    let previous = section.take("previous_secret");
    let needs_secret = !is_for_oauth || previous.is_some();
    let secrets = [secret.clone(), previous];
    let secrets = secrets.into_iter().flatten().filter_map(|field| read_secret(reader, &field)).collect();
    let mut seconds = |key, usual| {
        let time = section.take(key).and_then(|field| field.duration(reader, LONGEST));
        time.map_or(usual, |time| time.as_secs())
    };
    let (window, skew) = (seconds("window", Rules::WINDOW), seconds("skew", Rules::SKEW));
    section.finish(reader);
    if secret.is_none() && !needs_secret {
        return AuthSection { rules: None, oauth };
    }
    if secret.is_none() {
        let help = "make one with `toolyard token --new-secret` and pass it by a variable: secret = \"${TOOLYARD_SECRET}\"";
        place.error(reader, "`secret` is missing", help);
    }
    AuthSection { rules: Some(Rules { secrets, window, skew }), oauth }
}

pub(crate) fn read_secret(reader: &mut Reader<'_>, field: &Field) -> Option<Secret> {
    let text = field.expanded(reader)?;
    let secret = Secret::parse(&text);
    if secret.is_none() {
        let message = format!("expected base64 of at least {SHORTEST_SECRET} bytes");
        let help =
            "make one with `toolyard token --new-secret` and pass it by a variable: \"${TOOLYARD_SECRET}\"";
        field.error(reader, message, help);
    }
    secret
}
