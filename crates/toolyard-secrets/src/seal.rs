//! The sealed form of all secrets: a line that names the format, a random nonce, and the values under
//! ChaCha20-Poly1305. The line is authenticated, so that a later format cannot be passed off as this one.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::{Error, Secret, Values};

const FORMAT: &[u8] = b"toolyard secrets 1\n";
const KEY_LENGTH: usize = 32;

/// The sealed content: names with values in Base64.
type Encoded = BTreeMap<String, Zeroizing<String>>;

pub(crate) struct Key(LessSafeKey);

impl Key {
    /// A new key, and the content of its file.
    pub(crate) fn make() -> Result<(Self, Zeroizing<Vec<u8>>), Error> {
        let bytes = Zeroizing::new(random::<KEY_LENGTH>()?);
        let key = Self::of(&bytes[..]).ok_or(Error::Random)?;
        let mut text = Zeroizing::new(BASE64.encode(&bytes[..]).into_bytes());
        text.push(b'\n');
        Ok((key, text))
    }

    /// Parses the content of the file.
    pub(crate) fn parse(text: Vec<u8>) -> Option<Self> {
        let text = Zeroizing::new(text);
        let bytes = Zeroizing::new(BASE64.decode(text.trim_ascii()).ok()?);
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        UnboundKey::new(&CHACHA20_POLY1305, bytes).ok().map(LessSafeKey::new).map(Self)
    }

    pub(crate) fn seal(&self, values: &Values) -> Result<Vec<u8>, Error> {
        let encode = |(name, value): (&String, &Secret)| (name.clone(), BASE64.encode(value.expose()).into());
        let encoded: Encoded = values.iter().map(encode).collect();
        let texts: BTreeMap<&str, &str> =
            encoded.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut content = serde_json::to_vec(&texts).expect("texts by name are always JSON");
        let nonce = random::<NONCE_LEN>()?;
        let once = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_append_tag(once, Aad::from(FORMAT), &mut content);
        sealed.expect("a store is far smaller than what the cipher can seal");
        Ok([FORMAT, &nonce, &content].concat())
    }

    /// The values, if they were sealed with this key and nothing has changed since.
    pub(crate) fn open(&self, file: &[u8]) -> Option<Values> {
        let (nonce, sealed) = file.strip_prefix(FORMAT)?.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = Zeroizing::new(sealed.to_vec());
        let content = self.0.open_in_place(nonce, Aad::from(FORMAT), &mut content).ok()?;
        let texts: BTreeMap<String, String> = serde_json::from_slice(content).ok()?;
        let encoded: Encoded = texts.into_iter().map(|(name, value)| (name, value.into())).collect();
        let decode = |(name, value): (String, Zeroizing<String>)| {
            Some((name, Secret::new(BASE64.decode(value.as_bytes()).ok()?)))
        };
        encoded.into_iter().map(decode).collect()
    }
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}
