//! Random names that cannot be guessed.

use data_encoding::HEXLOWER;

/// 160 random bits as text.
pub(crate) fn token() -> String {
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    HEXLOWER.encode(&bytes)
}
