//! A program that was built without the feature `cluster`: it refuses a config with a cluster.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use toolyard_config::{ClusterConfig, Config};
use toolyard_core::{Connect, Gateway};
use toolyard_model::{Keys, Nodes, Scope, SharedSecrets};
use toolyard_proto::name::UpstreamId;
use toolyard_serve::Endpoint;

use crate::connect::ConnectContext;

/// There is none.
#[derive(Clone, Debug)]
pub(crate) enum Node {}

impl Node {
    pub(crate) fn open(config: &Config, _: &Keys) -> Result<Option<Self>> {
        if config.cluster.is_some() {
            anyhow::bail!(
                "the config has a [cluster], and this program was built without clusters (build it with `--features cluster`)"
            );
        }
        Ok(None)
    }

    pub(crate) fn owned(&self, _: &UpstreamId, _: Arc<dyn Connect>, _: &ConnectContext) -> Arc<dyn Connect> {
        match *self {}
    }

    pub(crate) fn credentials(&self, _: &UpstreamId) -> Option<Arc<dyn SharedSecrets>> {
        match *self {}
    }

    pub(crate) fn nodes(&self, _: &Scope) -> Arc<dyn Nodes> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "has the form of the one with the feature")]
    pub(crate) async fn start(
        &self,
        _: &Gateway,
        _: &ConnectContext,
        _: Option<&Path>,
        _: &Scope,
    ) -> Result<()> {
        match *self {}
    }

    pub(crate) fn status(&self) -> Value {
        match *self {}
    }

    pub(crate) fn serve(&self, _: &Arc<Endpoint>, _: &Scope) {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "has the form of the one with the feature")]
    pub(crate) async fn end(&self) {
        match *self {}
    }
}

pub(crate) async fn read_audit(
    _: &ClusterConfig,
    _: bool,
    _: impl FnMut(String, Option<Value>) -> bool,
) -> Result<()> {
    anyhow::bail!("this program was built without clusters")
}
