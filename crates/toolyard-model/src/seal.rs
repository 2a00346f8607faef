//! Sealed values that clients carry for the gateway, such as the state of a parked call: they can be neither read nor
//! forged. The keys are kept in the state directory, so that a value can be recognised after a restart.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde_json::{Value, json};

use crate::private_file;

/// A key that is older is replaced at the next start. The one before it still opens what it sealed.
const KEY_AGE: Duration = Duration::from_hours(30 * 24);
const FORMAT: u64 = 1;

/// The gateway's keys, and the names of this gateway and of this run.
pub struct Keys {
    gateway: String,
    run: [u8; 8],
    /// The newest first.
    sealers: Vec<Key>,
}

struct Key {
    bytes: [u8; 32],
    /// In seconds since 1970.
    made: u64,
}

impl Default for Keys {
    /// Keys that end with the process.
    fn default() -> Self {
        Self { gateway: HEXLOWER.encode(&random::<8>()), run: random(), sealers: vec![Key::new()] }
    }
}

impl Keys {
    /// Keys that all gateways with the same secret have. They do not change by themselves.
    pub fn shared(secret: &[u8], gateway: &str) -> Self {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let tag = ring::hmac::sign(&key, b"toolyard cluster seal");
        let bytes = tag.as_ref().try_into().expect("the digest has the key's length");
        let sealers = vec![Key { bytes, made: seconds_since_1970() }];
        Self { gateway: gateway.to_owned(), run: random(), sealers }
    }

    /// Reads the keys from a file, or makes it. Deleting the file makes all sealed values invalid.
    pub fn load(path: &Path) -> io::Result<Self> {
        let mut keys = match fs::read(path) {
            Ok(text) => Self::parse(&text).unwrap_or_else(|| {
                tracing::warn!(path = %path.display(), "replaced a key file that cannot be read");
                Self::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(error),
        };
        if keys.sealers.first().is_none_or(Key::is_old) {
            keys.rotate();
        }
        private_file::write(path, keys.render().as_bytes())?;
        Ok(keys)
    }

    /// A new key from now on; the one before it still opens what it sealed.
    pub fn rotate(&mut self) {
        self.sealers.insert(0, Key::new());
        self.sealers.truncate(2);
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let file: Value =
            serde_json::from_slice(text).ok().filter(|file: &Value| file["format"] == FORMAT)?;
        let key = |key: &Value| {
            let bytes = BASE64URL_NOPAD.decode(key["key"].as_str()?.as_bytes()).ok()?;
            Some(Key { bytes: bytes.try_into().ok()?, made: key["made"].as_u64()? })
        };
        let keys: Option<Vec<Key>> = file["keys"].as_array()?.iter().map(key).collect();
        Some(Self { gateway: file["gateway"].as_str()?.to_owned(), run: random(), sealers: keys? })
    }

    fn render(&self) -> String {
        let key = |key: &Key| json!({ "key": BASE64URL_NOPAD.encode(&key.bytes), "made": key.made });
        let keys: Vec<Value> = self.sealers.iter().map(key).collect();
        json!({ "format": FORMAT, "gateway": self.gateway, "keys": keys }).to_string()
    }

    /// The name of this gateway, the same in every run with the same key file.
    pub fn gateway(&self) -> &str {
        &self.gateway
    }

    /// The name of this run of the gateway.
    pub fn run(&self) -> [u8; 8] {
        self.run
    }

    /// `bytes`, sealed for one purpose: they can be opened for that purpose only.
    pub fn seal(&self, purpose: &str, bytes: &[u8]) -> String {
        let nonce = random::<NONCE_LEN>();
        let mut sealed = bytes.to_vec();
        self.sealers[0]
            .cipher()
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(purpose), &mut sealed)
            .expect("a few bytes can be sealed");
        BASE64URL_NOPAD.encode(&[&nonce[..], &sealed].concat())
    }

    /// Opens a sealed text, if it was sealed for this purpose with one of the keys.
    pub fn open(&self, purpose: &str, text: &str) -> Option<Vec<u8>> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        self.sealers.iter().find_map(|key| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let mut sealed = sealed.to_vec();
            let opened = key.cipher().open_in_place(nonce, Aad::from(purpose), &mut sealed).ok()?;
            Some(opened.to_vec())
        })
    }
}

impl Key {
    fn new() -> Self {
        Self { bytes: random(), made: seconds_since_1970() }
    }

    fn is_old(&self) -> bool {
        seconds_since_1970().saturating_sub(self.made) > KEY_AGE.as_secs()
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.bytes).expect("the key has the cipher's length");
        LessSafeKey::new(key)
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

impl std::fmt::Debug for Keys {
    /// Keys are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_values_open_for_their_purpose_only_and_not_when_changed() {
        let keys = Keys::default();
        let sealed = keys.seal("state", b"value");
        assert_eq!(keys.open("state", &sealed).as_deref(), Some(&b"value"[..]));
        assert_eq!(keys.open("handle", &sealed), None);
        assert_eq!(Keys::default().open("state", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(keys.open("state", &changed), None, "byte {at}");
        }
    }

    #[test]
    fn keys_survive_a_restart_and_one_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let first = Keys::load(&path).unwrap();
        let sealed = first.seal("state", b"value");
        let mut second = Keys::load(&path).unwrap();
        assert_eq!(second.gateway(), first.gateway());
        assert_ne!(second.run(), first.run());
        assert!(second.open("state", &sealed).is_some());
        second.rotate();
        assert!(second.open("state", &sealed).is_some());
        second.rotate();
        assert!(second.open("state", &sealed).is_none());
        fs::write(&path, "garbage").unwrap();
        assert!(Keys::load(&path).unwrap().open("state", &sealed).is_none());
    }

    #[test]
    fn an_old_key_is_replaced_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let mut old = Keys::load(&path).unwrap();
        let sealed = old.seal("state", b"value");
        old.sealers[0].made -= KEY_AGE.as_secs() + 1;
        fs::write(&path, old.render()).unwrap();
        let new = Keys::load(&path).unwrap();
        assert_eq!(new.sealers.len(), 2);
        assert!(new.open("state", &sealed).is_some() && old.open("state", &new.seal("state", b"")).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_keys() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        Keys::load(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
