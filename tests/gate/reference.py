# Reference values of tests/unit/test_gate_stats.c.  Made with: python3 -m venv V; V/bin/pip install scipy==1.17.1
# numpy==2.4.6 statsmodels; V/bin/python tests/gate/reference.py
import numpy as np
from scipy import stats
# deterministic data: the same generator in C
def lcg(seed, n):
    out=[]; s=seed
    for _ in range(n):
        s=(s*6364136223846793005+1442695040888963407) % 2**64
        out.append(s>>40)
    return np.array(out, dtype=float)
a=[1.1,2.2,3.3,4.4,5.5,2.2]; b=[2.2,3.1,4.9,6.0,7.7,8.1,2.2]
for (x,y) in ((a,b),(list(lcg(1,50)),list(lcg(2,60)*1.2)),(list(lcg(3,40)%7),list(lcg(4,30)%9))):
    g=stats.mannwhitneyu(y,x,alternative='greater',method='asymptotic')
    l=stats.mannwhitneyu(y,x,alternative='less',method='asymptotic')
    w=stats.ttest_ind(y,x,equal_var=False,alternative='greater')
    print("U=%.17g pg=%.15g pl=%.15g welch=%.15g"%(g.statistic,g.pvalue,l.pvalue,w.pvalue))
    print(" medians %.17g %.17g p95 %.17g"%(np.median(x),np.median(y),np.percentile(y,95)))
from itertools import product
print(lcg(1,3))
# Holm
def holm(p):
    p=np.array(p); o=np.argsort(p,kind='stable'); m=len(p); adj=np.minimum(1,np.maximum.accumulate((m-np.arange(m))*p[o])); r=np.empty(m); r[o]=adj; return r
print(holm([0.01,0.04,0.03,0.005,0.6]))
try:
    from statsmodels.stats.multitest import multipletests
    print(multipletests([0.01,0.04,0.03,0.005,0.6],method='holm')[1])
except Exception as e: print(e)
# Geyer initial positive monotone sequence ESS of an AR(1)
x=np.empty(500); u=lcg(5,500)/2**24-0.5; x[0]=u[0]
for i in range(1,500): x[i]=0.7*x[i-1]+u[i]
def ess(x):
    n=len(x); d=x-x.mean(); ac=np.correlate(d,d,'full')[n-1:]/n; r=ac/ac[0]
    s=0; before=np.inf; lag=1
    while lag+1<n//2:
        pair=r[lag]+r[lag+1]
        if pair<=0: break
        before=min(before,pair); s+=before; lag+=2
    return n/(1+2*s)
print("ess %.15g"%ess(x), "white %.15g"%ess(lcg(6,500)))
# percentile bootstrap of ratio of medians, iid (scipy)
rng=np.random.default_rng(1)
A=lcg(7,400)/2**24+10; B=(lcg(8,400)/2**24+10)*1.05
res=stats.bootstrap((A,B),lambda p,q,axis: np.median(q,axis=axis)/np.median(p,axis=axis),vectorized=True,paired=False,method='percentile',confidence_level=0.99,n_resamples=9999,rng=rng)
print("boot",res.confidence_interval, np.median(B)/np.median(A))
# Test between runs: three runs a side, expectation of 4 % worth 3 degrees of freedom
a=np.log([10.,10.2,9.9]); b=np.log([11.,10.8,11.3])
w=3.;s0=.04
df=w+len(a)+len(b)-2
v=(w*s0**2+((a-a.mean())**2).sum()+((b-b.mean())**2).sum())/df
se=np.sqrt(v*(1/3+1/3)); d=b.mean()-a.mean()
q=stats.t.isf(.005,df)
print("t", stats.t.sf(2.5,7), stats.t.sf(-1.2,3.5))
print("p %.15g low %.15g high %.15g"%(stats.t.sf(d/se,df),np.exp(d-q*se),np.exp(d+q*se)))
# The same for sides at 0, with a floor of 10: Welch, each side with its own expectation
def at_zero(a,b,floor=10.):
    def side(x): return (w*(floor**2+(s0*x.mean())**2)+((x-x.mean())**2).sum())/(w+len(x)-1)/len(x)
    va,vb,d=side(a),side(b),b.mean()-a.mean()
    df=(va+vb)**2/(va**2/(w+len(a)-1)+vb**2/(w+len(b)-1)); q=stats.t.isf(.005,df)*np.sqrt(va+vb)
    print("at 0: p %.15g ratio %.15g %.15g"%(stats.t.sf(d/np.sqrt(va+vb),df),max(0,1+(d-q)/a.mean()),1+(d+q)/a.mean()))
at_zero(np.array([0.,0,30]),np.array([500.,560]))
