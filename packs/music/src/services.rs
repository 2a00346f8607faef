//! The services about recordings: MusicBrainz, AcoustID and the Cover Art Archive. Each has its own
//! pace, for the requests of all tools together.

pub(crate) mod acoustid;
pub(crate) mod cache;
pub(crate) mod coverart;
pub(crate) mod musicbrainz;
pub(crate) mod pace;
pub(crate) mod web;

use acoustid::AcoustId;
use coverart::CoverArt;
use musicbrainz::MusicBrainz;
use web::Web;

use crate::config::Config;

#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) musicbrainz: MusicBrainz,
    pub(crate) acoustid: AcoustId,
    pub(crate) coverart: CoverArt,
}

impl Services {
    pub(crate) fn new(config: &Config) -> Self {
        let web = Web::new(config.contact.as_deref());
        Self {
            musicbrainz: MusicBrainz::new(web.clone(), config),
            acoustid: AcoustId::new(web.clone(), config),
            coverart: CoverArt::new(web, config),
        }
    }
}
