//! Identifies the definition of an upstream, so that what is kept of it is not shown for another.

use data_encoding::HEXLOWER;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::{OAuthConfig, Program, Reach, Server, SpareConfig, UpstreamConfig};

/// SHA-256 over everything that makes an upstream the one it is, in hex. Secrets go in as hashes of their own.
pub fn fingerprint(upstream: &UpstreamConfig) -> String {
    digest(upstream, true)
}

/// The same without the folder in which a program is started: by default that is the folder of the config, whose place
/// differs between machines.
pub fn fingerprint_on_any_machine(upstream: &UpstreamConfig) -> String {
    digest(upstream, false)
}

fn digest(upstream: &UpstreamConfig, with_folder: bool) -> String {
    let UpstreamConfig { reach, era, oauth, .. } = upstream;
    let mut parts = Parts(Sha256::new());
    parts.add(format!("{era:?}").as_bytes());
    match reach {
        Reach::Program(Program { command, args, env, cwd, sandbox }) => {
            parts.add(b"program");
            parts.add(command.as_bytes());
            parts.count(args.len());
            for argument in args {
                parts.add(argument.as_bytes());
            }
            for (name, value) in env {
                parts.add(name.as_bytes());
                parts.secret(value.as_bytes());
            }
            if with_folder {
                parts.add(cwd.as_os_str().as_encoded_bytes());
            }
            if let Some(sandbox) = sandbox {
                parts.add(format!("{sandbox:?}").as_bytes());
            }
        }
        Reach::Socket(socket) => {
            parts.add(b"socket");
            parts.add(socket.to_string().as_bytes());
        }
        Reach::Server(Server { url, headers, sse, spare, identity }) => {
            parts.add(if *sse { b"sse" } else { b"server" });
            parts.add(url.to_string().as_bytes());
            parts.headers(headers);
            if let Some(SpareConfig { headers, cool_down }) = spare {
                parts.add(format!("spare {cool_down:?}").as_bytes());
                parts.headers(headers);
            }
            if let Some(identity) = identity {
                parts.add(identity.certificate.as_os_str().as_encoded_bytes());
                parts.add(identity.key.as_os_str().as_encoded_bytes());
            }
        }
    }
    add_oauth(&mut parts, oauth);
    HEXLOWER.encode(&parts.0.finalize())
}

/// Another client or issuer means other rights, and so maybe other tools.
fn add_oauth(parts: &mut Parts, oauth: &OAuthConfig) {
    if *oauth == OAuthConfig::default() {
        return;
    }
    let OAuthConfig {
        is_off,
        client_id,
        client_secret,
        client_metadata_url,
        scopes,
        issuer,
        callback_port,
        shared,
    } = oauth;
    parts.add(format!("{is_off:?} {client_id:?} {client_metadata_url:?} {scopes:?} {issuer:?}").as_bytes());
    parts.add(format!("{callback_port:?} {shared:?}").as_bytes());
    parts.secret(client_secret.as_deref().unwrap_or_default().as_bytes());
}

/// The same for a pack: its tools come with the program, so the program's version counts, too.
pub fn fingerprint_of_pack(name: &str, config: &serde_json::Value) -> String {
    let mut parts = Parts(Sha256::new());
    for part in ["pack", name, env!("CARGO_PKG_VERSION")] {
        parts.add(part.as_bytes());
    }
    parts.secret(config.to_string().as_bytes());
    HEXLOWER.encode(&parts.0.finalize())
}

/// Each part goes in with its length, so that no two definitions make the same bytes.
struct Parts(Sha256);

impl Parts {
    fn add(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.update(part);
    }

    fn count(&mut self, count: usize) {
        self.0.update(u64::try_from(count).unwrap_or(u64::MAX).to_le_bytes());
    }

    fn headers(&mut self, headers: &HeaderMap) {
        let mut headers: Vec<_> = headers.iter().collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in headers {
            self.add(name.as_str().as_bytes());
            self.secret(value.as_bytes());
        }
    }

    fn secret(&mut self, part: &[u8]) {
        self.add(&Sha256::digest(part));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolyard_core::Sharing;
    use toolyard_link::EraPin;
    use toolyard_proto::name::UpstreamId;

    use super::*;
    use crate::StartConfig;

    fn program(args: &[&str], env: &[(&str, &str)]) -> String {
        fingerprint(&upstream(args, env))
    }

    fn upstream(args: &[&str], env: &[(&str, &str)]) -> UpstreamConfig {
        UpstreamConfig {
            oauth: OAuthConfig::default(),
            id: UpstreamId::parse("a").unwrap(),
            renamed_from: None,
            reach: Reach::Program(Program {
                command: "a".into(),
                args: args.iter().map(|&text| text.to_owned()).collect(),
                env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
                cwd: "/".into(),
                sandbox: None,
            }),
            era: EraPin::Auto,
            timeout: None,
            connect_timeout: None,
            roots: Vec::new(),
            sharing: Sharing::Shared,
            ping: false,
            start: StartConfig::default(),
            pins: None,
            lock: toolyard_policy::pin::LockState::None,
            trusted: false,
            sampling: None,
        }
    }

    #[test]
    fn every_part_counts() {
        let same = program(&["b", "c"], &[("K", "v")]);
        assert_eq!(same, program(&["b", "c"], &[("K", "v")]));
        assert_eq!(same.len(), 64);
        for other in [
            program(&["bc"], &[("K", "v")]),
            program(&["b", "c"], &[("K", "w")]),
            program(&["b", "c"], &[("L", "v")]),
            program(&["b", "c"], &[]),
        ] {
            assert_ne!(same, other);
        }
    }

    #[test]
    fn settings_that_apply_in_place_do_not_count() {
        let minute = Some(Duration::from_mins(1));
        let start = StartConfig { timeout: minute, stop_when_idle: minute, lazy: true };
        let other = UpstreamConfig {
            timeout: minute,
            connect_timeout: minute,
            ping: true,
            roots: vec!["file:///a".into()],
            start,
            ..upstream(&["b"], &[])
        };
        assert_eq!(fingerprint(&other), program(&["b"], &[]));
    }
}
