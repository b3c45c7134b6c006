#!/usr/bin/env python3
"""Records how a real kube-apiserver answers random applies, updates and patches: what apply.json is made of.

    cargo run -p peers --example kubernetes       # prints the kubeconfig
    python3 record_apply.py <kubeconfig> > apply.json

The kubeconfig has to be JSON, as the example's is. apply.json holds a part of such a run: some of the objects, without
the steps that a controller's write came between.
"""
import base64
import http.client
import json
import random
import ssl
import sys
import tempfile
import time

SCRATCH = tempfile.mkdtemp() + "/"
K=sys.argv[1]
cfg=json.load(open(K))
u=cfg['users'][0]['user']; c=cfg['clusters'][0]['cluster']
open(SCRATCH+'ca','wb').write(base64.b64decode(c['certificate-authority-data'])) if 'certificate-authority-data' in c else None
ca=c.get('certificate-authority',SCRATCH+'ca')
def f(name):
    if name in u: return u[name]
    p=SCRATCH+name; open(p,'wb').write(base64.b64decode(u[name+'-data'])); return p
ctx=ssl.create_default_context(cafile=ca)
if 'client-certificate' in u or 'client-certificate-data' in u: ctx.load_cert_chain(f('client-certificate'),f('client-key'))
hdr={}
if 'token' in u: hdr['Authorization']='Bearer '+u['token']
host=c['server'].split('//')[1]
conn=http.client.HTTPSConnection(host,context=ctx)
def req(m,p,b=None,ct='application/json'):
    h=dict(hdr); h['Content-Type']=ct
    conn.request(m,p,json.dumps(b) if b is not None else None,h)
    r=conn.getresponse(); d=r.read()
    try: return r.status,json.loads(d)
    except Exception: return r.status,d.decode()
S=lambda **k:dict(type='string',**k)
schema={'type':'object','properties':{'spec':{'type':'object','properties':{
 'text':S(),'number':{'type':'integer'},'map':{'type':'object','additionalProperties':S()},
 'atomicMap':{'type':'object','additionalProperties':S(),'x-kubernetes-map-type':'atomic'},
 'object':{'type':'object','properties':{'a':S(),'b':S(),'deep':{'type':'object','properties':{'c':S(),'d':S()}}}},
 'set':{'type':'array','items':S(),'x-kubernetes-list-type':'set'},
 'keyed':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['name'],'items':{'type':'object','required':['name'],'properties':{'name':S(),'value':S(),'inner':{'type':'object','properties':{'x':S(),'y':S()}}}}},
 'ports':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['port','protocol'],'items':{'type':'object','required':['port'],'properties':{'port':{'type':'integer'},'protocol':S(default='TCP'),'title':S()}}},
 'list':{'type':'array','items':S()},
 'free':{'type':'object','x-kubernetes-preserve-unknown-fields':True},
 'nullable':S(nullable=True)}},
 'status':{'type':'object','properties':{'phase':S(),'conditions':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['type'],'items':{'type':'object','required':['type'],'properties':{'type':S(),'status':S()}}}}}}}
crd={'apiVersion':'apiextensions.k8s.io/v1','kind':'CustomResourceDefinition','metadata':{'name':'widgets.example.com'},'spec':{'group':'example.com','names':{'plural':'widgets','singular':'widget','kind':'Widget','listKind':'WidgetList'},'scope':'Namespaced','versions':[{'name':v,'served':True,'storage':v=='v1','schema':{'openAPIV3Schema':schema},'subresources':{'status':{}}} for v in ('v1','v1beta1')]}}
req('POST','/apis/apiextensions.k8s.io/v1/customresourcedefinitions',crd)
time.sleep(3)
R=random.Random(7)
w=lambda:R.choice(['x','y','z'])
def some(d,p=0.4): return {k:v() for k,v in d.items() if R.random()<p}
def sub(l,p=0.5):
    o=[x for x in l if R.random()<p]; R.shuffle(o); return o
def spec():
    return some({'text':w,'number':lambda:R.randint(0,3),'map':lambda:some({'a':w,'b':w,'c':w},.5),'atomicMap':lambda:some({'a':w,'b':w},.6),
     'object':lambda:some({'a':w,'b':w,'deep':lambda:some({'c':w,'d':w},.6)},.5),
     'set':lambda:sub(['p','q','r','s']),'keyed':lambda:[dict(name=n,**some({'value':w,'inner':lambda:some({'x':w,'y':w},.6)},.6)) for n in sub(['k1','k2','k3','k4'])],
     'ports':lambda:[dict(port=p,**some({'protocol':lambda:q,'title':w},.5) ) for p,q in sub([(80,'TCP'),(80,'UDP'),(443,'TCP')],.5)],
     'list':lambda:sub(['l1','l2','l3']),'free':lambda:some({'a':w,'b':lambda:some({'c':w,'d':lambda:['1',w()]},.6),'n':lambda:R.randint(0,2)},.5),'nullable':lambda:R.choice(['v',None])},.35)
def dedup(s):
    if 'ports' in s:
        seen=set(); out=[]
        for p in s['ports']:
            k=(p['port'],p.get('protocol','TCP'))
            if k in seen and R.random()<.9: continue
            seen.add(k); out.append(p)
        s['ports']=out
    return s
def labels(): return some({'l1':w,'l2':w},.3)
steps=[]
base='/apis/example.com/%s/namespaces/default/widgets'
for n in range(40):
    name='w%d'%n; live=None
    for i in range(R.randint(4,14)):
        v=R.choice(['v1','v1','v1','v1beta1']); mgr=R.choice(['alice','bob','kubectl'])
        st,before=req('GET',(base%v)+'/'+name)
        live=before if st==200 else None
        md={'name':name,'namespace':'default'}
        l=labels()
        if l: md['labels']=l
        op=R.choice(['apply']*5+['merge','put','status-apply','status-merge'])
        if live is None and op in('merge','status-apply','status-merge'): op='apply'
        rec={'op':op,'version':'example.com/'+v,'kind':'Widget','manager':mgr,'before':live}
        if op in('apply','status-apply'):
            body={'apiVersion':'example.com/'+v,'kind':'Widget','metadata':md}
            if op=='apply': body['spec']=dedup(spec())
            else: body['status']=some({'phase':w,'conditions':lambda:[dict(type=t,status=w()) for t in sub(['A','B','C'])]},.8)
            force=R.random()<.4
            rec.update(config=body,force=force)
            path=(base%v)+'/'+name+('/status' if op[0]=='s' else '')+'?fieldManager=%s&force=%s'%(mgr,str(force).lower())
            code,after=req('PATCH',path,body,'application/apply-patch+yaml')
        elif op=='put':
            body={'apiVersion':'example.com/'+v,'kind':'Widget','metadata':md,'spec':dedup(spec())}
            if live is None: code,after=req('POST',(base%v)+'?fieldManager='+mgr,body)
            else:
                body['metadata']['resourceVersion']=live['metadata']['resourceVersion']
                if R.random()<.7:
                    body['spec']={**live.get('spec',{}),**body['spec']}
                if 'status' in live: body['status']=live['status']
                if R.random()<.1: body['metadata']['managedFields']=[]
                rec['given']=body['metadata'].get('managedFields')
                code,after=req('PUT',(base%v)+'/'+name+'?fieldManager='+mgr,body)
        else:
            body={'spec':spec()} if op=='merge' else {'status':some({'phase':w,'conditions':lambda:[dict(type=t,status=w()) for t in sub(['A','B'])]},.8)}
            code,after=req('PATCH',(base%v)+'/'+name+('/status' if op[0]=='s' else '')+'?fieldManager='+mgr,body,'application/merge-patch+json')
        rec.update(code=code,after=after); steps.append(rec)
        time.sleep(0.01)
# last applied migration and built-ins
def dep(reps,img,extra=None,ann=None):
    c={'name':'main','image':img}
    if extra: c.update(extra)
    s={'selector':{'matchLabels':{'a':'b'}},'template':{'metadata':{'labels':{'a':'b'}},'spec':{'containers':[c]}}}
    if reps is not None: s['replicas']=reps
    m={'name':'d','namespace':'default'}
    if ann: m['annotations']=ann
    return {'apiVersion':'apps/v1','kind':'Deployment','metadata':m,'spec':s}
def builtin(op,mgr,body,force=False,name='d',gv='apps/v1',pl='deployments',ct=None):
    path='/apis/%s/namespaces/default/%s/%s'%(gv,pl,name) if '/' in gv else '/api/%s/namespaces/default/%s/%s'%(gv,pl,name)
    st,before=req('GET',path); live=before if st==200 else None
    rec={'op':op,'version':gv,'kind':body.get('kind'),'manager':mgr,'before':live,'force':force}
    if op=='apply':
        rec['config']=body
        code,after=req('PATCH',path+'?fieldManager=%s&force=%s'%(mgr,str(force).lower()),body,'application/apply-patch+yaml')
    elif op=='merge': 
        rec['kind']=live['kind']; code,after=req('PATCH',path+'?fieldManager='+mgr,body,ct or 'application/merge-patch+json')
    elif op=='post': code,after=req('POST',path.rsplit('/',1)[0]+'?fieldManager='+mgr,body); rec['op']='put'
    rec.update(code=code,after=after); steps.append(rec)
la='kubectl.kubernetes.io/last-applied-configuration'
d=dep(2,'i:1'); d['metadata']['annotations']={la:json.dumps(dep(2,'i:1'))+'\n'}
builtin('post','kubectl-client-side-apply',d)
builtin('apply','kubectl',dep(3,'i:2'))
builtin('apply','other',dep(4,'i:2'))
builtin('apply','other',dep(3,'i:2',{'ports':[{'containerPort':80}],'env':[{'name':'A','value':'1'}]}))
builtin('apply','third',dep(None,'i:2',{'ports':[{'containerPort':80,'protocol':'UDP'}],'env':[{'name':'B','value':'1'}]}))
builtin('apply','other',dep(None,'i:2'))
builtin('apply','third',dep(9,'i:9'),True)
builtin('apply','bad',dep(9,'i:9',{'nosuch':1}))
builtin('apply','bad',dep(9,'i:9',{'env':[{'name':'A','value':'1'},{'name':'A','value':'2'}]}))
builtin('merge','scaler',{'spec':{'replicas':7}})
cm=lambda data,**k:{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c','namespace':'default',**k},'data':data}
for args in [('apply','a',cm({'x':'1','y':'1'},labels={'l':'1'})),('apply','b',cm({'y':'1','z':'1'})),('apply','a',cm({'x':'2'})),('apply','b',cm({'x':'3'})),('merge','m',{'data':{'x':'9','n':'1'}}),('apply','a',cm({'x':'2'})),('apply','a',cm({'x':'2'}),True),('apply','b',cm({}))]:
    builtin(*args,name='c',gv='v1',pl='configmaps')
svc=lambda ports:{'apiVersion':'v1','kind':'Service','metadata':{'name':'s','namespace':'default'},'spec':{'clusterIP':'None','ports':ports}}
for args in [('apply','a',svc([{'port':80}])),('apply','b',svc([{'port':80,'protocol':'UDP','name':'u'}])),('apply','b',svc([{'port':80,'protocol':'UDP','name':'u'}]),True)]:
    builtin(*args,name='s',gv='v1',pl='services')
json.dump({'crd':crd,'steps':steps},sys.stdout,separators=(',',':'))
