//! Whether a process of another user has connected. A port of this machine is open to all its users; the
//! system's table of connections shows the user of the other end.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use crate::system;

/// Only if it is certain: on a system without this information, no client is rejected.
pub(crate) fn is_of_another_user(theirs: SocketAddr, ours: SocketAddr) -> bool {
    let own = system::own_user();
    let table = if theirs.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let table = fs::read_to_string(table).unwrap_or_default();
    match (own, owner(&table, theirs, ours)) {
        (Some(own), Some(other)) => own != other,
        _ => false,
    }
}

/// The user of the connection that leads from `theirs` to `ours`.
fn owner(table: &str, theirs: SocketAddr, ours: SocketAddr) -> Option<u32> {
    let (local, remote) = (written(theirs), written(ours));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1) == Some(&local.as_str()) && fields.get(2) == Some(&remote.as_str());
        if is_it { fields.get(7)?.parse().ok() } else { None }
    })
}

/// As the table has it: words of four bytes in the order of the machine, in hexadecimal digits.
fn written(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks(4).map(|word| {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        format!("{word:08X}")
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_a_connection_is_in_the_table() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let _stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, from) = listener.accept().unwrap();
            let own = accepted.local_addr().unwrap();
            let table = if from.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
            let uid = system::own_user().unwrap();
            assert_eq!(owner(&fs::read_to_string(table).unwrap(), from, own), Some(uid));
            assert!(!is_of_another_user(from, own));
        }
        let table = "head\n0: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 4711 0 1\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner(table, at(1), at(2)), Some(4711));
        assert_eq!(owner(table, at(2), at(1)), None);
        assert_eq!(owner(table, at(1), at(3)), None);
    }
}
