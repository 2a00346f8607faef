//! Serves plain requests, one after the other on their connection, without hyper.
//!
//! hyper supports everything that HTTP allows, which costs more for each request than a whole call of a
//! built-in tool. Nearly every request has one form ([`PlainRequest`]), so that form is served by hand. The
//! first request of another form, and all that follow on its connection, are left to hyper with every byte.

use std::io::Result;
use std::pin::pin;

use bytes::Bytes;
use http::header::AUTHORIZATION;

use super::head::{PlainRequest, space};
use super::hyper::Handoff;
use super::plain_connection::PlainConnection;
use super::{Destination, Door, LAST_ANSWERS};
use crate::admit::Ticket;
use crate::post::{self, Routed};
use crate::write_timeout::WriteTimeout;

/// Returns the connection when a request comes that is not plain.
pub(super) async fn serve(door: &Door, stream: WriteTimeout, ticket: &Ticket) -> Result<Option<Handoff>> {
    let ending = &door.endpoint.ending;
    let mut serving = pin!(take_turns(door, PlainConnection::new(stream), ticket));
    tokio::select! {
        biased;
        done = &mut serving => done,
        () = ending.ended() => tokio::time::timeout(LAST_ANSWERS, serving).await.unwrap_or(Ok(None)),
    }
}

async fn take_turns(door: &Door, mut turns: PlainConnection, ticket: &Ticket) -> Result<Option<Handoff>> {
    let endpoint = &door.endpoint;
    while turns.arrived(&endpoint.ending).await? {
        let (begun, end) = match begin(door, turns.unread(), ticket) {
            Begun::Request(begun, end) => (begun, end),
            Begun::Handoff => return Ok(Some(turns.into_handoff())),
            Begun::Unverified { token, authorization } => {
                let gate = &endpoint.options.gate;
                let checked = turns.unless_gone(gate.verify_on(ticket, &authorization, &token));
                let Some(()) = checked.await else { break };
                match begin(door, turns.unread(), ticket) {
                    Begun::Request(begun, end) => (begun, end),
                    Begun::Handoff | Begun::Unverified { .. } => return Ok(Some(turns.into_handoff())),
                }
            }
        };
        turns.take(end);
        let Some(response) = turns.unless_gone(begun.respond(endpoint)).await else { break };
        turns.send(response, endpoint.ending.is_ended()).await?;
    }
    Ok(None)
}

/// What the first request in the buffer leads to.
enum Begun<'a> {
    /// Its answer, and where the request ends.
    Request(Routed<'a>, usize),
    /// It is not plain.
    Handoff,
    /// The issuer of its token has to be asked first. Boxed, since it is rare.
    Unverified { token: Box<str>, authorization: Box<[u8]> },
}

fn begin<'a>(door: &'a Door, unread: &[u8], ticket: &Ticket) -> Begun<'a> {
    let mut space = space();
    let Some(request) = PlainRequest::read(unread, &mut space) else { return Begun::Handoff };
    let routed = match door.route(request.path, None, request.fields, ticket) {
        Destination::Answered(response) | Destination::Refused(response) => Routed::Answered(*response),
        Destination::Mcp(view, admitted) => {
            let body = Bytes::copy_from_slice(request.body);
            post::whole(&door.endpoint, view, admitted, request.fields, &body)
        }
        Destination::Unverified(token) => {
            let authorization = request.fields.first(&AUTHORIZATION).unwrap_or_default().into();
            return Begun::Unverified { token, authorization };
        }
        Destination::Elsewhere
        | Destination::Page(_)
        | Destination::Public
        | Destination::Control(..)
        | Destination::Events(..) => return Begun::Handoff,
    };
    Begun::Request(routed, request.end)
}
