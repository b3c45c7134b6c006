//! An API server.

use std::pin::Pin;
use std::sync::Arc;

use apiserver::auth::{SigningKey, Tokens};
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use clock::{Clock, SystemClock, SystemEntropy};
use kubeapi::authn::{MASTERS, User};
use tokio::net::TcpListener;

/// Whoever has a token may do everything.
struct Anybody;

impl Tokens for Anybody {
    fn holder<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<User>, String>> + Send + 'a>> {
        Box::pin(async move {
            Ok(Some(User { name: token.into(), groups: vec![MASTERS.into()], ..User::default() }))
        })
    }
}

/// Serves until somebody ends the process. Prints where.
pub(crate) async fn serve() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
    let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
    let parts = Parts::new(store, clock, Box::new(SystemEntropy), "-- a certificate --", key);
    let instance = Instance::start(Parts { tokens: Some(Arc::new(Anybody)), ..parts }).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    instance.listen(listener, None).await;
}
