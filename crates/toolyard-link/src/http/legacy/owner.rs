//! The owner of an upstream session. Log level, subscriptions, roots and everything else the server remembers belong
//! to the session, so it is shared only by clients that may share these.

use sha2::{Digest, Sha256};
use toolyard_model::{ClientKey, Origin, Principal};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// One client that keeps a session or a connection with us.
    Client(ClientKey),
    /// All requests of one principal with the same capabilities, where each request is self-contained.
    Shared {
        principal: Principal,
        client: Option<ClientKey>,
        capabilities: [u8; 32],
    },
    Gateway,
}

impl Owner {
    pub(crate) fn of(origin: &Origin) -> Self {
        match &origin.client {
            ClientKey::Gateway => Self::Gateway,
            key @ (ClientKey::Session(_) | ClientKey::Connection(_)) => Self::Client(key.clone()),
            key => Self::Shared {
                principal: origin.principal.clone(),
                client: matches!(key, ClientKey::Principal(_)).then(|| key.clone()),
                capabilities: Sha256::digest(origin.capabilities.as_bytes()).into(),
            },
        }
    }

    /// The client that unasked messages are for, if the owner is one client.
    pub(crate) fn client(&self) -> Option<ClientKey> {
        match self {
            Self::Client(key) => Some(key.clone()),
            Self::Shared { client, .. } => client.clone(),
            Self::Gateway => None,
        }
    }
}
